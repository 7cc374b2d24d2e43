import { useSyncExternalStore } from 'react';

const query = matchMedia('(max-width: 767px)');

/** Whether the screen has room for one part of the page at a time. */
export const useNarrow = (): boolean =>
  useSyncExternalStore(
    (listener) => {
      query.addEventListener('change', listener);
      return () => query.removeEventListener('change', listener);
    },
    () => query.matches,
  );
