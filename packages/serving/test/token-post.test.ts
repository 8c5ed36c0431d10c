import type { Context } from '@braess/kernel';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { clearPost, postToken, sendPost } from '../src/actors/token-post.js';

interface Sent {
  readonly to: number;
  readonly delayNs: number;
  readonly requests: readonly number[];
}

function listen(sent: Sent[]): Context {
  const send = (to: number, _type: unknown, delayNs: number, ...fields: number[]): void => {
    sent.push({ to, delayNs, requests: fields });
  };
  return { send } as unknown as Context;
}

const token = fc.record({ frontend: fc.integer({ min: 0, max: 300 }), request: fc.integer({ min: 0, max: 2 ** 40 }) });

it('tokens of a pass reach each frontend in their order, six to a message, and nothing is left for the next pass', () => {
  fc.assert(
    fc.property(fc.array(fc.array(token, { maxLength: 60 }), { minLength: 1, maxLength: 4 }), (passes) => {
      for (const [delayNs, pass] of passes.entries()) {
        const sent: Sent[] = [];
        const context = listen(sent);
        clearPost();
        for (const { frontend, request } of pass) postToken(context, frontend, delayNs, request);
        sendPost(context, delayNs);
        for (const frontend of new Set(pass.map((each) => each.frontend))) {
          const wanted = pass.filter((each) => each.frontend === frontend).map((each) => each.request);
          const messages = sent.filter(({ to }) => to === frontend);
          expect(messages.flatMap(({ requests }) => requests.filter((request) => request >= 0))).toEqual(wanted);
          expect(messages.length).toBe(Math.ceil(wanted.length / 6));
        }
        for (const message of sent) {
          expect(message.delayNs).toBe(delayNs);
          expect(message.requests.length).toBe(6);
        }
      }
    }),
  );
});

it('what a handler that threw left behind is forgotten', () => {
  const sent: Sent[] = [];
  postToken(listen(sent), 5, 0, 1);
  clearPost();
  postToken(listen(sent), 5, 0, 2);
  sendPost(listen(sent), 0);
  expect(sent).toEqual([{ to: 5, delayNs: 0, requests: [2, -1, -1, -1, -1, -1] }]);
});
