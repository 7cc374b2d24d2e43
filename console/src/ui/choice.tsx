import type { ReactNode } from 'react';
import { clipped } from '../format.ts';

type ChoiceProps = Readonly<{
  label: string;
  /** Undefined: any. */
  value: string | undefined;
  values: readonly string[];
  change: (value: string | undefined) => void;
  wordsOf?: (value: string) => string;
  /** The words for no choice. */
  any?: string;
}>;

/** A filter of one value out of several, or none. */
export function Choice(props: ChoiceProps): ReactNode {
  const { label, value, values, change, wordsOf = (one) => one.replaceAll('_', ' '), any = `${label}: any` } = props;
  const known = value === undefined || values.includes(value) ? values : [...values, value];
  return (
    <select
      aria-label={label}
      className={`field h-6! max-w-48 px-1! text-sm ${value === undefined ? 'text-dim' : 'border-accent! bg-chosen!'}`}
      value={value ?? ''}
      onChange={(event) => change(event.target.value === '' ? undefined : event.target.value)}
    >
      <option value="">{any}</option>
      {known.map((one) => (
        <option key={one} value={one}>
          {clipped(wordsOf(one), MAX_SHOWN_CHARS)}
        </option>
      ))}
    </select>
  );
}

const MAX_SHOWN_CHARS = 80;
