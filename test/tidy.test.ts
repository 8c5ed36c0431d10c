import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { filesBelow, readWorkspaces, root, type SourceFile } from './workspaces.js';

const lineLimit = 600;
const bannedWords = ['util', 'utils', 'helper', 'helpers', 'manager', 'common'];

/** What differs between runs or Node versions, and where it may be used all the same: around the handlers, never inside. */
const allowed: Readonly<Record<string, readonly string[]>> = {
  // A program whose handlers break every rule, to test that they are caught.
  'Math.random': ['packages/kernel/src/testing/programs/fault-program.ts'],
  'Date.now': ['packages/kernel/src/testing/programs/fault-program.ts'],
  'Math.pow': ['packages/kernel/src/testing/programs/fault-program.ts'],
  // Statistics of the wall clock; and bucket edges, which are powers of two with whole exponents.
  '**': ['packages/kernel/src/pacing.ts', 'packages/telemetry/src/statistics/histogram.ts'],
};

const code = ['packages', 'apps', 'bench', 'test'].flatMap(filesBelow).filter((path) => /\.[cm]?[jt]sx?$/.test(path));

function tooLong(files: readonly SourceFile[]): string[] {
  return files.flatMap(({ path, text }) => {
    const lines = text.split('\n').length - 1;
    return lines < lineLimit ? [] : [`${path} has ${lines} lines; split it (under ${lineLimit})`];
  });
}

function badlyNamed(paths: readonly string[]): string[] {
  return paths.flatMap((path) => {
    const words = posix.basename(path).split(/[^A-Za-z]+|(?=[A-Z])/);
    const banned = words.find((word) => bannedWords.includes(word.toLowerCase()));
    return banned === undefined ? [] : [`${path}: '${banned}' says nothing; name the file after what it holds`];
  });
}

/** Every use of what makes a run irreproducible. A power of literals is a constant, the same everywhere; the rest is `power` of the kernel. */
function irreproducible({ path, text }: SourceFile): string[] {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const found: string[] = [];
  const report = (what: string, node: ts.Node): void => {
    if (allowed[what]?.includes(path)) return;
    found.push(`${path}:${source.getLineAndCharacterOfPosition(node.getStart()).line + 1} uses ${what}`);
  };
  const visit = (node: ts.Node): void => {
    if (ts.isPropertyAccessExpression(node)) {
      const what = `${node.expression.getText()}.${node.name.text}`;
      if (what === 'Math.random' || what === 'Date.now' || what === 'Math.pow') report(what, node);
    }
    if (ts.isBinaryExpression(node)) {
      const isPower = node.operatorToken.kind === ts.SyntaxKind.AsteriskAsteriskToken;
      const isPowerInPlace = node.operatorToken.kind === ts.SyntaxKind.AsteriskAsteriskEqualsToken;
      if (isPowerInPlace || (isPower && !isExactPower(node))) report('**', node);
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/** Of two literals, a square, or two to a rounded power: those are exact in every engine. */
function isExactPower({ left, right }: ts.BinaryExpression): boolean {
  const isLiteral = ts.isNumericLiteral(right) || (ts.isPrefixUnaryExpression(right) && ts.isNumericLiteral(right.operand));
  if (ts.isNumericLiteral(left) && isLiteral) return true;
  if (ts.isNumericLiteral(left) && left.text === '2') return /^Math\.(ceil|floor|round)\(/.test(right.getText());
  return ts.isNumericLiteral(right) && right.text === '2';
}

describe('the repository is tidy', () => {
  const files = code.map((path) => ({ path, text: readFileSync(root + path, 'utf8') }));
  const packageSources = readWorkspaces()
    .filter(({ folder }) => folder.startsWith('packages/'))
    .flatMap(({ sources }) => sources);

  it('files are short', () => {
    expect(files.length).toBeGreaterThan(100);
    expect(tooLong(files)).toEqual([]);
  });

  it('file names mean something', () => {
    expect(badlyNamed(code)).toEqual([]);
  });

  it('packages use no clock, no random numbers and no powers that differ between Node versions', () => {
    expect(packageSources.length).toBeGreaterThan(50);
    expect(packageSources.flatMap(irreproducible)).toEqual([]);
  });

  it('catches what it looks for', () => {
    expect(tooLong([{ path: 'a.ts', text: 'x\n'.repeat(600) }])).toEqual(['a.ts has 600 lines; split it (under 600)']);
    expect(tooLong([{ path: 'a.ts', text: 'x\n'.repeat(599) }])).toEqual([]);
    expect(badlyNamed(['src/string-utils.ts', 'src/QueueManager.ts', 'src/common.test.ts'])).toHaveLength(3);
    expect(badlyNamed(['src/utility-function.ts', 'src/commons.ts'])).toEqual([]);
    const text = `
      // Math.random() in a comment, and in '2 ** n'
      const a = Math.random();
      const b = Date.now();
      const c = x.map(Math.pow);
      const d = base ** 2.5;
      let e = 2 ** exponent;
      e **= 3;
      const fine = 2 ** 53 - 1 + side ** 2 + 2 ** -3 + 2 ** Math.ceil(bits);
      const f = 3 ** Math.ceil(bits);
    `;
    expect(irreproducible({ path: 'packages/x/src/y.ts', text })).toEqual([
      'packages/x/src/y.ts:3 uses Math.random',
      'packages/x/src/y.ts:4 uses Date.now',
      'packages/x/src/y.ts:5 uses Math.pow',
      'packages/x/src/y.ts:6 uses **',
      'packages/x/src/y.ts:7 uses **',
      'packages/x/src/y.ts:8 uses **',
      'packages/x/src/y.ts:10 uses **',
    ]);
  });
});
