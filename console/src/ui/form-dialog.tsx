import { BatonError, type FieldError } from '@baton-run/server/client';
import { type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from 'react';
import { failureWords } from '../format.ts';
import { Dialog } from './dialog.tsx';

/** The service's words about a refused field, by the name of the field. Undefined: the field is not refused. */
export type Problems = (name: string) => string | undefined;

type FormProps = Readonly<{
  title: string;
  /** The word on the button: the action itself. */
  act: string;
  /** The fields of the form. A refusal of anything else stands below all of them. */
  fields: readonly string[];
  /** A rejection is shown in the form, which stays open. */
  submit: () => Promise<unknown>;
  close: () => void;
  children: (problems: Problems) => ReactNode;
}>;

/** A form above the page, which Ctrl-Enter submits. The service checks it, and a refusal stands beside its field. */
export function FormDialog({ title, act, fields, submit, close, children }: FormProps): ReactNode {
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    if (error !== null) form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [error]);
  const send = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    setError(null);
    try {
      await submit();
      close();
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  const refused = error instanceof BatonError ? error.errors : [];
  const isOf = ({ path }: FieldError): boolean => fields.includes(nameOf(path));
  const problems: Problems = (name) => refused.find(({ path }) => nameOf(path) === name)?.message;
  return (
    <Dialog isOpen close={close} title={title} width="max-w-xl" isKept>
      <form ref={form} onSubmit={(event) => void send(event)} className="flex flex-col gap-3">
        {children(problems)}
        {error !== null && !(refused.length > 0 && refused.every(isOf)) && (
          <p role="alert" className="text-failed wrap-anywhere">
            {failureWords(error)}
          </p>
        )}
        <div className="sticky -bottom-4 -mx-4 -mb-4 flex justify-end gap-2 border-t border-line bg-raised px-4 py-3">
          <button type="button" className="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="button main" disabled={isBusy}>
            {act} <kbd className="kbd">Ctrl ↵</kbd>
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** The field of an error's path: `events` for `events.0`. */
const nameOf = (path: string): string => path.split('.')[0] ?? '';

/** The attributes that mark the control of a field as refused, and link it to its label, hint and refusal. */
type Control = Readonly<{ id: string; 'aria-invalid': boolean; 'aria-describedby': string | undefined }>;

type FieldProps = Readonly<{
  label: string;
  problem: string | undefined;
  /** The purpose of the field, shown below it. */
  hint?: ReactNode;
  children: (control: Control) => ReactNode;
}>;

/** A labelled control with its hint, and with the service's refusal of it. */
export function FormField({ label, problem, hint, children }: FieldProps): ReactNode {
  const id = useId();
  const described = [hint !== undefined && `${id}-hint`, problem !== undefined && `${id}-problem`].filter(Boolean);
  return (
    <div className="flex min-w-0 flex-col gap-1">
      <label htmlFor={id}>{label}</label>
      {children({
        id,
        'aria-invalid': problem !== undefined,
        'aria-describedby': described.length === 0 ? undefined : described.join(' '),
      })}
      {problem !== undefined && (
        <p id={`${id}-problem`} role="alert" className="text-failed wrap-anywhere">
          {problem}
        </p>
      )}
      {hint !== undefined && (
        <p id={`${id}-hint`} className="text-sm text-dim">
          {hint}
        </p>
      )}
    </div>
  );
}

type AgentProps = Readonly<{
  control: Control;
  /** The words for the choice of no agent, whose value is the empty text. */
  none: string;
  names: readonly string[];
  value: string;
  change: (name: string) => void;
}>;

/** The agents by name. A chosen agent that is gone is still shown. */
export const AgentSelect = ({ control, none, names, value, change }: AgentProps): ReactNode => (
  <select {...control} className="field" value={value} onChange={(event) => change(event.target.value)}>
    <option value="">{none}</option>
    {[...new Set([...(value === '' ? [] : [value]), ...names])].map((name) => (
      <option key={name}>{name}</option>
    ))}
  </select>
);
