import { CircleAlert } from 'lucide-react';
import type { ReactNode } from 'react';
import { failureWords } from '../format.ts';

/** Stands in the place of an empty list, with the next thing to do. */
export function Empty({ title, children }: Readonly<{ title: string; children?: ReactNode }>): ReactNode {
  return (
    <div className="flex flex-col items-start gap-2 px-3 py-6">
      <p className="font-medium">{title}</p>
      <div className="flex max-w-2xl flex-col items-start gap-2 text-dim">{children}</div>
    </div>
  );
}

/** A failure in the place of what could not be shown, with a way out. */
export function Failure({
  error,
  retry,
  children,
}: Readonly<{ error: unknown; retry?: (() => void) | undefined; children?: ReactNode }>): ReactNode {
  return (
    <div role="alert" className="flex flex-wrap items-center gap-2 p-3">
      <CircleAlert size={14} className="flex-none text-failed" aria-hidden="true" />
      <span className="min-w-0 wrap-anywhere">{failureWords(error)}</span>
      {retry !== undefined && (
        <button type="button" className="button small" onClick={retry}>
          Try again
        </button>
      )}
      {children}
    </div>
  );
}

/** Lines in the place of rows that are being read. */
export function SkeletonRows({ rows, height }: Readonly<{ rows: number; height: number }>): ReactNode {
  return (
    <div aria-hidden="true" data-skeleton="">
      {Array.from({ length: rows }, (_, row) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the rows are all alike.
        <div key={row} className="flex items-center gap-4 border-b border-line px-3" style={{ height }}>
          <span className="skeleton h-2.5" style={{ width: `${18 + ((row * 7) % 11)}%` }} />
          <span className="skeleton h-2.5" style={{ width: `${30 + ((row * 5) % 17)}%` }} />
          <span className="skeleton h-2.5 w-16" />
        </div>
      ))}
    </div>
  );
}
