import { X } from 'lucide-react';
import type { ReactNode } from 'react';
import { dismiss, useNotices } from '../notices.ts';

/** Notices of actions that ended or failed, at the top, where no page has its details. Screen readers say them. */
export function Notices(): ReactNode {
  const notices = useNotices();
  return (
    <div
      role="status"
      className="pointer-events-none fixed top-11 left-1/2 z-40 flex w-96 max-w-[calc(100vw-24px)] -translate-x-1/2 flex-col gap-2"
    >
      {notices.map(({ id, kind, text }) => (
        <div key={id} className="floating pointer-events-auto flex items-start gap-2 px-3 py-2">
          <span className={`min-w-0 flex-1 wrap-anywhere ${kind === 'failed' ? 'text-failed' : ''}`}>{text}</span>
          <button type="button" className="icon-button" aria-label="Dismiss" onClick={() => dismiss(id)}>
            <X size={13} />
          </button>
        </div>
      ))}
    </div>
  );
}
