import { type RefObject, useEffect, useLayoutEffect, useRef } from 'react';

/** A list that is scrolled this close to its end counts as at its end. */
const NEAR_END_PX = 120;

/**
 * Keeps a list at its end that is there: when its own height changes because a notice came or went beside it, and when
 * rows above were replaced by more of them.
 * @param rows the number of rows
 */
export function useStayAtEnd(scroller: RefObject<HTMLElement | null>, rows: number, toEnd: () => void): void {
  const act = useRef(toEnd);
  act.current = toEnd;
  const isAtEnd = useRef(true);
  useEffect(() => {
    const list = scroller.current;
    if (list === null) return;
    const note = (): void => {
      isAtEnd.current = list.scrollHeight - list.scrollTop - list.clientHeight < NEAR_END_PX;
    };
    const resized = new ResizeObserver(() => isAtEnd.current && act.current());
    list.addEventListener('scroll', note, { passive: true });
    resized.observe(list);
    return () => {
      list.removeEventListener('scroll', note);
      resized.disconnect();
    };
  }, [scroller]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another number of rows is the reason to look.
  useLayoutEffect(() => {
    if (isAtEnd.current) act.current();
  }, [rows]);
}
