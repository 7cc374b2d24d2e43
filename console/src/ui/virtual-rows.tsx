import { useVirtualizer } from '@tanstack/react-virtual';
import { type ReactNode, type RefObject, useEffect, useRef } from 'react';
import { useKeys } from '../keys.ts';

type Props<Row> = Readonly<{
  rows: readonly Row[];
  height: number;
  keyOf: (row: Row) => string;
  render: (row: Row, isChosen: boolean) => ReactNode;
  head?: ReactNode;
  foot?: ReactNode;
  /** The row that the keys have chosen. */
  chosen: number;
  choose: (index: number) => void;
  open: (row: Row) => void;
  /** Called when the last rows come into sight. */
  onEnd?: (() => void) | undefined;
  label: string;
  /** The least width of the rows, in pixels. A narrower screen scrolls sideways. */
  minWidth?: number;
}>;

/** A list of which only the rows in sight are in the page. j and k move, Enter opens. */
export function VirtualRows<Row>(props: Props<Row>): ReactNode {
  const { rows, height, keyOf, render, head, foot, chosen, choose, open, onEnd, label, minWidth = 0 } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => height,
    overscan: 12,
    getItemKey: (index) => keyOf(rows[index] as Row),
    scrollPaddingStart: head === undefined ? 0 : 28,
  });
  const move = (by: number): void => {
    const next = Math.max(0, Math.min(rows.length - 1, chosen + by));
    choose(next);
    virtual.scrollToIndex(next);
  };
  useKeys('List', {
    j: ['Next row', () => move(1)],
    k: ['Previous row', () => move(-1)],
    Enter: [
      'Open the row',
      () => {
        const row = rows[chosen];
        if (row !== undefined) open(row);
      },
    ],
  });
  const items = virtual.getVirtualItems();
  useEnd(items.at(-1)?.index ?? 0, rows.length, onEnd);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolled region must be reached by keys.
    <section ref={scroller} className="h-full overflow-auto" aria-label={label} tabIndex={0} data-scroller="">
      <div style={{ minWidth }}>
        {head}
        <div className="relative" style={{ height: virtual.getTotalSize() }}>
          {items.map(({ index, key, start }) => (
            <div
              key={key}
              className="absolute inset-x-0"
              style={{ height, transform: `translateY(${start}px)` }}
              data-index={index}
            >
              {render(rows[index] as Row, index === chosen)}
            </div>
          ))}
        </div>
        {foot}
      </div>
    </section>
  );
}

function useEnd(last: number, length: number, onEnd: (() => void) | undefined): void {
  const current: RefObject<typeof onEnd> = useRef(onEnd);
  current.current = onEnd;
  useEffect(() => {
    if (length > 0 && last >= length - 15) current.current?.();
  }, [last, length]);
}
