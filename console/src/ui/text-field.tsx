import { type ReactNode, useId } from 'react';

type FieldProps = Readonly<{
  label: string;
  value: string;
  change: (value: string) => void;
  /** Values that the browser offers. */
  choices?: readonly string[];
}>;

/** A labelled field of one line. */
export function TextField({ label, value, change, choices = [] }: FieldProps): ReactNode {
  const field = useId();
  return (
    <label className="flex flex-col gap-1" htmlFor={field}>
      {label}
      <input
        id={field}
        type="text"
        className="field"
        maxLength={200}
        value={value}
        list={`${field}-choices`}
        onChange={(event) => change(event.target.value)}
      />
      <datalist id={`${field}-choices`}>
        {choices.map((choice) => (
          <option key={choice} value={choice} />
        ))}
      </datalist>
    </label>
  );
}
