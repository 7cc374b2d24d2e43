import { type RefObject, useEffect, useLayoutEffect, useRef } from 'react';

/** A list that is scrolled this close to its end counts as at its end. */
const NEAR_END_PX = 120;

/** `rows`: their number. `isAtEnd`: whether it begins at its end. */
type List = Readonly<{ rows: number; isAtEnd: boolean }>;

/**
 * Keeps a list at its end that is there: when its own height changes because a notice came or went beside it, and when
 * rows above were replaced by more of them.
 */
export function useStayAtEnd(scroller: RefObject<HTMLElement | null>, list: List, toEnd: () => void): void {
  const act = useRef(toEnd);
  act.current = toEnd;
  const { rows } = list;
  const isAtEnd = useRef(list.isAtEnd);
  useEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    const note = (): void => {
      isAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END_PX;
    };
    const resized = new ResizeObserver(() => isAtEnd.current && act.current());
    element.addEventListener('scroll', note, { passive: true });
    resized.observe(element);
    return () => {
      element.removeEventListener('scroll', note);
      resized.disconnect();
    };
  }, [scroller]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another number of rows is the reason to look.
  useLayoutEffect(() => {
    if (isAtEnd.current) act.current();
  }, [rows]);
}
