/** The shell command that does the same again: every option spelled out, so that changed defaults do not change it. */
export function replayCommand(words: readonly string[], options: Readonly<Record<string, string | number>>): string {
  const parts = Object.entries(options).map(([name, value]) => `--${name} ${quoted(String(value))}`);
  return [...words, ...parts].join(' ');
}

/** One word of a shell command. */
export function quoted(text: string): string {
  return /^[\w.:/@+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
