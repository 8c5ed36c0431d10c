import { readdirSync, readFileSync } from 'node:fs';
import { root } from './workspaces.js';

/** A fenced block of a document: its language, and the word behind it: a file name, or `fragment`. */
export interface Block {
  readonly document: string;
  readonly line: number;
  readonly language: string;
  readonly label: string;
  readonly text: string;
}

export const documents = ['README.md', ...readdirSync(`${root}docs`).map((name) => `docs/${name}`)].filter((name) => name.endsWith('.md'));

export function blocksOf(document: string): Block[] {
  return readBlocks(document, readFileSync(root + document, 'utf8'));
}

export function readBlocks(document: string, markdown: string): Block[] {
  return [...markdown.matchAll(/^```(\w*)(?: (\S+))?\n([\s\S]*?)^```$/gm)].map((match) => ({
    document,
    line: markdown.slice(0, match.index).split('\n').length,
    language: match[1] as string,
    label: match[2] ?? '',
    text: match[3] as string,
  }));
}

/** A command as a document writes it, and as a test runs it. */
export interface DocumentedCommand {
  readonly written: string;
  /** Without what the installed repository has behind it; undefined when nothing is left. */
  readonly run: string | undefined;
}

/** Installing, building and the tests themselves are the only commands that no test runs. */
const excluded = /^npm (ci|test|run build)\b/;

/** The commands of a `sh` block, one a line; a line may join several by `&&`. */
export function commandsOf({ text }: Block): DocumentedCommand[] {
  return text
    .split('\n')
    .map((line) => line.replace(/\s+# .*$/, '').trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((written) => {
      const left = written.split(' && ').filter((part) => !excluded.test(part));
      return { written, run: left.length === 0 ? undefined : left.join(' && ') };
    });
}
