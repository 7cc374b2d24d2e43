import type { Message } from '@baton-run/server/client';
import { useVirtualizer } from '@tanstack/react-virtual';
import { ArrowDown } from 'lucide-react';
import { memo, type ReactNode, useEffect, useMemo, useRef, useState } from 'react';
import { Failure, SkeletonRows } from '../ui/empty.tsx';
import { NewestRun } from './asked.ts';
import { type MessageActions, MessageView } from './message-view.tsx';
import { useLive, useNewestRun, useTranscript } from './session-context.tsx';
import { TranscriptEnd } from './transcript-end.tsx';
import { useStayAtEnd } from './use-stay-at-end.ts';

const GUESSED_PX = 96;
/** A list that is scrolled this close to its end follows new messages. */
const NEAR_END_PX = 120;

type Props = Readonly<{
  actions: MessageActions;
  /** The message of the chosen step, or that of a search. */
  chosenSeq: number | null;
}>;

/** The whole conversation. Only the messages in sight are in the page, and it opens at its end, or at the chosen one. */
export const Transcript = memo(function Transcript({ actions, chosenSeq }: Props): ReactNode {
  const transcript = useTranscript();
  const run = useNewestRun();
  const last = transcript.lastSeq();
  if (last === null) {
    const failure = transcript.failure();
    if (failure === null) return <SkeletonRows rows={8} height={72} />;
    return <Failure error={failure} retry={() => void transcript.refresh()} />;
  }
  return (
    <NewestRun value={run}>
      <MessageList last={last} actions={actions} chosenSeq={chosenSeq} />
    </NewestRun>
  );
});

function MessageList({ last, actions, chosenSeq }: Props & Readonly<{ last: number }>): ReactNode {
  const transcript = useTranscript();
  const scroller = useRef<HTMLDivElement>(null);
  const [beginsAt] = useState(chosenSeq === null ? null : chosenSeq - 1);
  // A list that opens elsewhere holds to its end only once it was there.
  const hasBeenAtEnd = useRef(beginsAt === null);
  // Messages are numbered from 1, so the row of a message is its number less 1; the last row is the end.
  const virtual = useVirtualizer({
    count: last + 1,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => (index === last ? 40 : transcript.at(index + 1) === null ? 0 : GUESSED_PX),
    getItemKey: (index) => (index === last ? 'end' : index + 1),
    overscan: 4,
    anchorTo: hasBeenAtEnd.current ? 'end' : 'start',
    followOnAppend: true,
    scrollEndThreshold: NEAR_END_PX,
    initialOffset: (beginsAt ?? last) * GUESSED_PX,
    // The list handles an observed resize in the same frame of the screen, not in the next one.
    useAnimationFrameWithResizeObserver: false,
  });
  const items = virtual.getVirtualItems();
  const [from, to] = [(items[0]?.index ?? 0) + 1, (items.at(-1)?.index ?? 0) + 1];
  const version = transcript.version();
  // biome-ignore lint/correctness/useExhaustiveDependencies: a change may have made pages stale.
  useEffect(() => transcript.show(from, to), [transcript, from, to, version]);
  useStartAtEnd(beginsAt === null, () => virtual.scrollToEnd());
  useStayAtEnd(scroller, { rows: last, isAtEnd: beginsAt === null }, () => virtual.scrollToEnd());
  useShowChosen(chosenSeq, (seq) => virtual.scrollToIndex(seq - 1, { align: 'start' }));
  const distancePx = (virtual.scrollRect?.height ?? 0) + (virtual.scrollOffset ?? 0);
  const isAway = virtual.getTotalSize() - distancePx > 600;
  if (!isAway) hasBeenAtEnd.current = true;
  return (
    <div className="relative h-full">
      <section
        ref={scroller}
        className="h-full overflow-auto [overflow-anchor:none]"
        aria-label="Transcript"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolled region must be reached by keys.
        tabIndex={0}
        data-scroller=""
      >
        <div className="relative w-full" style={{ height: virtual.getTotalSize() }}>
          {items.map(({ index, key, start }) => (
            <div
              key={key}
              ref={virtual.measureElement}
              data-index={index}
              className="absolute inset-x-0 top-0"
              style={{ transform: `translateY(${start}px)` }}
            >
              {index === last ? (
                <TranscriptEnd isEmpty={last === 0} />
              ) : (
                <MessageRow message={transcript.at(index + 1)} isChosen={chosenSeq === index + 1} actions={actions} />
              )}
            </div>
          ))}
        </div>
      </section>
      {isAway && (
        <button
          type="button"
          className="floating button absolute right-4 bottom-3"
          onClick={() => virtual.scrollToEnd()}
        >
          <ArrowDown size={13} /> to the end
        </button>
      )}
    </div>
  );
}

type RowProps = Readonly<{ message: Message | null | undefined; isChosen: boolean; actions: MessageActions }>;

function MessageRow({ message, isChosen, actions }: RowProps): ReactNode {
  if (message === null) return null;
  if (message === undefined) return <MissingMessage />;
  if (message.role === 'assistant' && message.finishReason === null && message.error === null) {
    return <OpenMessage message={message} isChosen={isChosen} actions={actions} />;
  }
  return <MessageView message={message} live={null} isChosen={isChosen} actions={actions} />;
}

/** The one message that is being written. Only it renders with each piece of text. */
function OpenMessage({ message, ...rest }: Omit<RowProps, 'message'> & Readonly<{ message: Message }>): ReactNode {
  const live = useLive();
  return <MessageView message={message} live={live?.messageId === message.id ? live : null} {...rest} />;
}

const MissingMessage = (): ReactNode => (
  <div aria-hidden="true" className="flex flex-col gap-2 px-4 py-3" style={{ height: GUESSED_PX }}>
    <span className="skeleton h-2.5 w-20" />
    <span className="skeleton h-2.5 w-4/5" />
    <span className="skeleton h-2.5 w-3/5" />
  </div>
);

/** The sizes of the rows are known only once they are measured, so the first render scrolls to the end again. */
function useStartAtEnd(isWanted: boolean, toEnd: () => void): void {
  const act = useRef(toEnd);
  act.current = toEnd;
  // biome-ignore lint/correctness/useExhaustiveDependencies: only the first render counts.
  useEffect(() => {
    if (isWanted) act.current();
  }, []);
}

function useShowChosen(seq: number | null, show: (seq: number) => void): void {
  const act = useRef(show);
  act.current = show;
  const [shown, setShown] = useState<number | null>(null);
  const wanted = useMemo(() => (seq === shown ? null : seq), [seq, shown]);
  useEffect(() => {
    if (wanted === null) return;
    act.current(wanted);
    setShown(wanted);
  }, [wanted]);
}
