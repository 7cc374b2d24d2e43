import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ViewMessage } from '../../../src/domain/transcript/message.ts';
import { parseRef } from '../../../src/domain/transcript/refs.ts';
import { forAnyCompaction, forAnyPrune, wireText } from './any-compaction.ts';
import { compacted, plan, thresholdsFor } from './compaction-view.ts';
import { continued, conversation } from './conversation-arbitrary.ts';

/** The view as it was recorded, without the marks of the context layer. */
const recorded = (view: readonly ViewMessage[]): unknown =>
  view.map(({ parts, ...message }) => ({ ...message, parts: parts.map(({ marks: _marks, ...part }) => part) }));

/** The places of outputs that the texts of a request name, where the rest can be read. */
function placesNamed(view: readonly ViewMessage[]): string[] {
  const refs = wireText(view).match(/out_\d+_\d+/g) ?? [];
  return refs.flatMap((ref) => {
    const place = parseRef(ref);
    return place?.kind === 'output' ? `${place.messageSeq}.${place.partIndex}` : [];
  });
}

const placeOf = (view: readonly ViewMessage[], { messageId, index }: { messageId: string; index: number }): string =>
  `${view.find(({ id }) => id === messageId)?.seq}.${index}`;

describe('what a prune or a compaction leaves of the transcript', () => {
  it('invariant 14: a prune writes marks and nothing else', () => {
    forAnyPrune(({ view, next }) => {
      expect(recorded(next)).toEqual(recorded(view));
    });
  });

  it('invariant 14: every cleared call names the place of its whole output', () => {
    forAnyPrune(({ view, marks, next }) => {
      const named = new Set(placesNamed(next));
      for (const mark of marks) expect(named).toContain(placeOf(view, mark));
      for (const place of named) {
        const [seq, index] = place.split('.').map(Number);
        expect(view.find((message) => message.seq === seq)?.parts[index ?? -1]?.type).toBe('tool');
      }
    });
  });

  it('invariant 14: a compaction changes no message that it keeps, and names the place of what it shortens', () => {
    forAnyCompaction(({ view, plan: { tail, marks, uptoSeq }, next }) => {
      const kept = view.filter(({ seq }) => seq > uptoSeq);
      expect(recorded(tail)).toEqual(recorded(kept));
      expect(recorded(next.slice(1))).toEqual(recorded(kept));
      const named = new Set(placesNamed(next));
      for (const mark of marks) expect(named).toContain(placeOf(view, mark));
    });
  });

  it('invariant 16: messages that arrive while it is under way stand behind the cut, in their order', () => {
    fc.assert(
      fc.property(conversation, conversation, (view, late) => {
        const thresholds = thresholdsFor(16_000);
        const planned = plan(view, thresholds);
        if (planned.kind !== 'compact') return;
        const transcript = continued(view, late, (view.at(-1)?.seq ?? 0) + 1);
        // Once the compaction is written, a read returns everything from the beginning of the view on.
        const read = transcript.filter(({ seq }) => seq >= planned.viewStartSeq);
        expect(read.map(({ id }) => id)).toEqual(
          [...planned.tail, ...transcript.slice(view.length)].map(({ id }) => id),
        );
        expect(planned.uptoSeq).toBeLessThan(transcript[view.length]?.seq ?? 0);
      }),
    );
  });

  it('invariant 17: the same transcript, read anew, gives the same plan and the same bytes', () => {
    fc.assert(
      fc.property(conversation, (view) => {
        const thresholds = thresholdsFor(16_000);
        const readAnew: ViewMessage[] = JSON.parse(JSON.stringify(view));
        expect(wireText(readAnew)).toBe(wireText(view));
        const [first, second] = [view, readAnew].map((read) => plan(read, thresholds));
        expect(second).toEqual(first);
        if (first?.kind !== 'compact' || second?.kind !== 'compact') return;
        expect(wireText(compacted(second, thresholds, 9_999))).toBe(wireText(compacted(first, thresholds, 9_999)));
      }),
    );
  });
});
