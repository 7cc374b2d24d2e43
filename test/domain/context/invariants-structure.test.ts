import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compactedView } from '../../../src/domain/context/compaction/compacted-view.ts';
import { userText } from '../../../src/domain/context/compaction/summary-document.ts';
import type { ModelMessage } from '../../../src/domain/model/model-message.ts';
import { toModelMessages } from '../../../src/domain/model/model-messages.ts';
import type { Part, ViewMessage } from '../../../src/domain/transcript/message.ts';
import type { ResolvedModel } from '../../../src/model/model-port.ts';
import { promptFor } from '../../../src/model/model-prompt.ts';
import { propertyRuns } from '../../support/property-runs.ts';
import { anthropicProblems, encodeForAnthropic } from '../valid-for-anthropic.ts';
import { chatProblems, responsesProblems } from '../valid-for-openai.ts';
import { wireBody } from '../wire.ts';
import { forAnyCompaction, forAnyPrune, inWire, prune, wireText } from './any-compaction.ts';
import { compacted, plan, thresholdsFor } from './compaction-view.ts';
import { conversation } from './conversation-arbitrary.ts';
import { MODEL } from './measure-view.ts';

const sent = (view: readonly ViewMessage[]): ModelMessage[] => toModelMessages(view, { model: MODEL });
const countOf = (parts: readonly { type: string }[], type: string): number =>
  parts.filter((part) => part.type === type).length;

/** Every step goes out whole, as it was recorded: its thinking, its calls, and one result for each, in their order. */
function expectWholeSteps(shown: readonly ViewMessage[], recorded: readonly ViewMessage[]): void {
  const messages = sent(shown);
  const steps = recorded.filter(({ role }) => role === 'assistant');
  const answers = messages.flatMap((message, index) => (message.role === 'assistant' ? [{ message, index }] : []));
  expect(answers.length).toBe(steps.length);
  answers.forEach(({ message, index }, at) => {
    const parts: readonly Part[] = steps[at]?.parts ?? [];
    expect(countOf(message.content, 'tool-call')).toBe(countOf(parts, 'tool'));
    // Only thinking that something follows is sent at all, and every generated one is followed by its calls.
    expect(countOf(message.content, 'reasoning')).toBe(countOf(parts, 'reasoning'));
    const calls = message.content.flatMap((part) => (part.type === 'tool-call' ? [part.toolCallId] : []));
    const next = messages[index + 1];
    const results = next?.role === 'tool' ? next.content.map(({ toolCallId }) => toolCallId) : [];
    expect(results).toEqual(calls);
  });
}

describe('the structure of a request', () => {
  it('invariant 1: after a compaction every call has one result, batches are atomic, thinking stays with its calls', () => {
    forAnyCompaction(({ view, plan: { head, tail, fromSeq, uptoSeq, viewStartSeq }, next }) => {
      expect([...head, ...tail]).toEqual(view);
      expect(fromSeq).toBe(view[0]?.seq);
      expect(uptoSeq).toBe(head.at(-1)?.seq);
      expect(viewStartSeq).toBe(uptoSeq + 1);
      expectWholeSteps(next, view.slice(head.length));
    });
  });

  it('invariant 1: after a prune every call has one result, batches are atomic, thinking stays with its calls', () => {
    forAnyPrune(({ view, next }) => expectWholeSteps(next, view));
  });

  it('invariant 2: a compacted view is valid for the Messages API: user first, alternating, nothing empty', () => {
    forAnyCompaction(({ next }) => {
      expect(anthropicProblems(encodeForAnthropic(sent(next)))).toEqual([]);
    });
  });

  it('invariants 1, 2: a pruned and compacted view is valid for both APIs of OpenAI, also after a change of the model', async () => {
    let checked = 0;
    await fc.assert(
      fc.asyncProperty(conversation, async (whole) => {
        const thresholds = thresholdsFor(16_000);
        const { next: view } = prune(whole, thresholds);
        const planned = plan(view, thresholds);
        if (planned.kind !== 'compact') return;
        checked++;
        const messages = toModelMessages(compacted(planned, thresholds, 9_999), { model: 'openai/gpt-5' });
        expect(responsesProblems((await wireBody('responses', messages)).input ?? [])).toEqual([]);
        expect(chatProblems((await wireBody('chat', messages)).messages ?? [])).toEqual([]);
      }),
      { numRuns: propertyRuns(0.6) },
    );
    expect(checked).toBeGreaterThan(0);
  });

  it('invariant 3: the instructions are the same bytes before and after, and no part of the messages', () => {
    const resolved = { cacheBreakpoints: true } as ResolvedModel;
    const instructions = 'You are precise. §1';
    forAnyCompaction(({ view, next }) => {
      const [before, afterwards] = [view, next].map((shown) =>
        promptFor(resolved, MODEL, { instructions, view: shown }),
      );
      expect(JSON.stringify(afterwards?.instructions)).toBe(JSON.stringify(before?.instructions));
      expect(afterwards?.messages.map(({ role }): string => role)).not.toContain('system');
      expect(JSON.stringify(afterwards?.messages)).not.toContain(instructions);
    });
  });

  it('invariant 4: the last user message and all those of the tail are verbatim, the first one up to its bound', () => {
    forAnyCompaction(({ view, thresholds, plan: { tail }, next }) => {
      const text = wireText(next);
      const users = view.filter(({ role }) => role === 'user');
      for (const { parts } of [...users.slice(-1), ...tail.filter(({ role }) => role === 'user')]) {
        expect(text).toContain(inWire(userText(parts) ?? ''));
      }
      const first = userText(users[0]?.parts ?? []) ?? '';
      const bound = thresholds.compactToTokens / 4;
      expect(text).toContain(inWire(first.length / 4 <= bound ? first : first.slice(0, 200)));
    });
  });

  it('invariant 4: the last user message is the last thing the user said, after the summary and not in it', () => {
    forAnyCompaction(({ view, plan: planned, thresholds }) => {
      const last = userText(view.findLast(({ role }) => role === 'user')?.parts ?? []);
      const { view: next } = compactedView(planned, { round: 1, body: 'Nothing said here.', thresholds });
      const said = sent(next).flatMap(({ role, content }) =>
        role === 'user' ? content.flatMap((part) => (part.type === 'text' ? [part.text] : [])) : [],
      );
      const own = said.filter((text) => !text.startsWith('[System notice'));
      expect(own.at(-1)).toBe(last);
    });
  });
});
