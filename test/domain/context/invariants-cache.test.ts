import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ViewMessage } from '../../../src/domain/transcript/message.ts';
import { propertyRuns } from '../../support/property-runs.ts';
import { anyWindow } from './any-compaction.ts';
import { conversation } from './conversation-arbitrary.ts';
import { callOf, textOf } from './measure-view.ts';
import { SessionLoop } from './session-loop.ts';

/** Plays a conversation: each user message is said, and each message of the assistant is the answer of a step. */
function play(messages: readonly ViewMessage[], contextWindow: number): SessionLoop {
  const session = new SessionLoop({ contextWindow });
  for (const { role, parts } of messages) {
    if (role === 'user') session.say(...parts);
    else if (!session.step(...parts)) break;
  }
  return session;
}

/** Characters of the whole messages that two prompts share from their beginning. */
function commonLength(a: readonly string[], b: readonly string[]): number {
  let chars = 0;
  for (let at = 0; at < a.length && a[at] === b[at]; at++) chars += a[at]?.length ?? 0;
  return chars;
}

const lengthOf = (prompt: readonly string[]): number => prompt.reduce((sum, message) => sum + message.length, 0);

describe('the prefix that a provider caches', () => {
  it('invariants 18, 19: every prompt begins with all of the one before, but for one break a prune or compaction', () => {
    let rewrites = 0;
    fc.assert(
      fc.property(conversation, anyWindow, (messages, contextWindow) => {
        const session = play(messages, contextWindow);
        const { sent } = session.history;
        let breaks = 0;
        for (let at = 1; at < sent.length; at++) {
          const [before, prompt] = [session.prompt(at - 1), session.prompt(at)];
          const isPrefix = commonLength(before, prompt) === lengthOf(before);
          if (sent[at]?.rewrites === sent[at - 1]?.rewrites) expect(isPrefix, `prompt ${at}`).toBe(true);
          if (!isPrefix) breaks++;
        }
        expect(breaks).toBeLessThanOrEqual(sent.at(-1)?.rewrites ?? 0);
        rewrites += breaks;
      }),
      { numRuns: propertyRuns(0.4) },
    );
    expect(rewrites).toBeGreaterThan(0);
  });

  it('invariant 19: serves more than nine tenths of what a long session sends', () => {
    const session = new SessionLoop({ contextWindow: 64_000 });
    session.say(textOf('Go on.'));
    for (let step = 0; step < 300; step++) {
      session.step(textOf(`Step ${step}.`), callOf({ path: `f${step}.ts` }, 'river stone engine '.repeat(100)));
    }
    const prompts = session.history.sent.map((_, at) => session.prompt(at));
    const hit = prompts.reduce((sum, prompt, at) => sum + commonLength(prompts[at - 1] ?? [], prompt), 0);
    const share = hit / prompts.reduce((sum, prompt) => sum + lengthOf(prompt), 0);
    expect(session.history.prunes + session.history.rounds.length).toBeGreaterThan(3);
    expect(share).toBeGreaterThan(0.9);
  });
});
