import { expect, it } from 'vitest';
import { textTable } from '../src/text-output.js';

it('a table wraps long texts inside their column, and never cuts a word', () => {
  const note = 'one two three four five six seven eight nine ten eleven twelve thirteen fourteen';
  const path = `/${'a'.repeat(90)}`;
  const wrapped = textTable(['row', 'note'], [['x', note]], ['left', 'left']).split('\n');
  expect(wrapped.map(({ length }) => length)).toEqual(wrapped.map(() => 3 + 5 + 66));
  expect(wrapped.join('').match(/[a-z]+/g)).toEqual(['row', 'note', 'x', ...note.split(' ')]);
  expect(textTable(['row', 'note'], [['x', `kept in ${path}`]], ['left', 'left'])).toContain(path);
});
