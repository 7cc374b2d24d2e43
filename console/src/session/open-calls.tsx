import type { ReactNode } from 'react';
import { plural } from '../format.ts';
import { useKeys } from '../keys.ts';
import { State } from '../ui/state.tsx';
import { useNewestRun } from './session-context.tsx';

/** Frames of the screen that the list may need until the call is in the page. */
const MAX_LOOKS = 60;

/** Scrolls to the first call that waits, and gives the focus to its first button. */
function showFirst(looks = 0): void {
  const list = document.querySelector('[aria-label="Transcript"]');
  const button = list?.querySelector<HTMLElement>('[data-required] button:not(:disabled)');
  if (button != null) {
    button.scrollIntoView({ block: 'nearest' });
    button.focus();
  } else if (list !== null && looks < MAX_LOOKS) {
    list.scrollTop = list.scrollHeight;
    requestAnimationFrame(() => showFirst(looks + 1));
  }
}

/** Says above the composer that calls wait for a person, and leads to them. */
export function OpenCalls(): ReactNode {
  const run = useNewestRun();
  const actions = run?.status === 'requires_action' ? run.requiredActions : [];
  useKeys('Session', { a: ['Go to the call that waits for an answer', () => actions.length > 0 && showFirst()] });
  if (actions.length === 0) return null;
  const names = [...new Set(actions.map(({ toolName }) => toolName))].join(', ');
  return (
    <p className="flex flex-none items-center gap-2 border-t border-line bg-panel px-3 py-1.5">
      <span className="min-w-0 truncate">
        <State state="requires_action">
          {plural(actions.length, 'call')} {actions.length === 1 ? 'waits' : 'wait'} for an answer: {names}
        </State>
      </span>
      <span className="flex-1" />
      <button type="button" className="button small" title="a" onClick={() => showFirst()}>
        Answer
      </button>
    </p>
  );
}
