import { ListFilter } from 'lucide-react';
import { type ReactNode, useMemo } from 'react';
import { plural } from '../format.ts';
import { jumpsOf } from './step-jumps.ts';
import type { Row } from './step-rows.ts';

/** Fewer rows are seen at a glance. */
const LEAST_ROWS = 12;

type Props = Readonly<{
  rows: readonly Row[];
  isFiltered: boolean;
  filter: (isFiltered: boolean) => void;
  jump: (key: string) => void;
}>;

/** Leads through a long list of steps: to what is worth a look, or to the unusual alone. */
export function StepTools({ rows, isFiltered, filter, jump }: Props): ReactNode {
  const groups = useMemo(() => jumpsOf(rows), [rows]);
  if (rows.length < LEAST_ROWS && !isFiltered) return null;
  return (
    <div className="flex flex-none items-center gap-2 border-b border-line px-3 py-1">
      <select
        aria-label="Jump to"
        className="field h-6! min-w-0 flex-1 text-sm"
        value=""
        onChange={(event) => jump(event.target.value)}
      >
        <option value="" disabled={true} hidden={true}>
          Jump to…
        </option>
        {[...groups].map(([group, jumps]) => (
          <optgroup key={group} label={jumps.length === 1 ? group : `${group} (${jumps.length})`}>
            {jumps.map(({ key, words }, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: a step may stand in one group twice.
              <option key={`${key} ${index}`} value={key}>
                {words}
              </option>
            ))}
          </optgroup>
        ))}
      </select>
      <button
        type="button"
        aria-pressed={isFiltered}
        className="button small flex-none aria-pressed:border-accent aria-pressed:bg-chosen"
        title={`Show only those of ${plural(rows.length, 'row')} that failed, waited, were taken again, compacted, or lost the cache`}
        onClick={() => filter(!isFiltered)}
      >
        <ListFilter size={12} aria-hidden="true" /> Unusual only
      </button>
    </div>
  );
}
