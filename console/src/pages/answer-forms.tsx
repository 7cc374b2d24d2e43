import type { CallQuestion, Json, ToolCallAnswer } from '@baton-run/server/client';
import { type FormEvent, type KeyboardEvent, type ReactNode, useId, useState } from 'react';
import { parseJson } from '../exact-json.ts';

export type FormProps = Readonly<{ close: () => void; isBusy: boolean; answer: (given: ToolCallAnswer) => void }>;

/** A field of some lines with its buttons. Ctrl-Enter submits, Escape closes. */
function TextForm(
  props: Readonly<{
    label: string;
    act: string;
    initial?: string;
    placeholder?: string;
    isDangerous?: boolean;
    isCode?: boolean;
    close: () => void;
    isBusy: boolean;
    /** Why the text cannot be taken; null: it can. */
    problem?: (text: string) => string | null;
    submit: (text: string) => void;
    children?: ReactNode;
  }>,
): ReactNode {
  const { label, act, initial = '', placeholder, isDangerous, isCode, close, isBusy, submit, children } = props;
  const [text, setText] = useState(initial);
  const field = useId();
  const problem = props.problem?.(text) ?? null;
  const send = (event?: FormEvent): void => {
    event?.preventDefault();
    if (!isBusy && problem === null) submit(text);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === 'Escape') close();
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) send();
  };
  return (
    <form onSubmit={send} className="flex flex-col gap-2">
      <label htmlFor={field}>{label}</label>
      <textarea
        id={field}
        className={`field max-h-[40vh] w-full ${isCode === true ? 'font-mono text-sm' : ''}`}
        rows={isCode === true ? Math.min(14, Math.max(4, text.split('\n').length)) : 3}
        placeholder={placeholder}
        value={text}
        dir="auto"
        aria-invalid={problem !== null}
        aria-describedby={problem === null ? undefined : `${field}-problem`}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKeyDown}
        // biome-ignore lint/a11y/noAutofocus: the form opens because the person asked for this field.
        autoFocus
      />
      {problem !== null && (
        <p id={`${field}-problem`} className="text-failed">
          {problem}
        </p>
      )}
      {children}
      <div className="flex flex-wrap items-center gap-2">
        <button
          type="submit"
          className={`button small ${isDangerous === true ? 'danger' : 'main'}`}
          disabled={isBusy || problem !== null}
        >
          {act} <kbd className="kbd">Ctrl ↵</kbd>
        </button>
        <button type="button" className="button small" onClick={close}>
          Back
        </button>
      </div>
    </form>
  );
}

export function DenyForm({ close, isBusy, answer }: FormProps): ReactNode {
  return (
    <TextForm
      label="Reason. The model reads it and goes on without the call."
      placeholder="Without a reason the model reads only that the call was denied."
      act="Deny"
      isDangerous
      close={close}
      isBusy={isBusy}
      submit={(reason) => answer({ decision: 'deny', ...(reason.trim() !== '' && { reason: reason.trim() }) })}
    />
  );
}

export function OutputForm({ close, isBusy, answer }: FormProps): ReactNode {
  const [isJson, setJson] = useState(false);
  const [isError, setError] = useState(false);
  return (
    <TextForm
      label="Output of the call, as the model is to read it"
      act="Answer"
      isCode={isJson}
      close={close}
      isBusy={isBusy}
      problem={(text) => (isJson && text.trim() !== '' ? jsonProblem(text) : null)}
      submit={(text) => answer({ output: isJson ? (parseJson(text) as Json) : text, ...(isError && { isError }) })}
    >
      <div className="flex gap-4">
        <label className="flex items-center gap-1.5">
          <input type="checkbox" checked={isJson} onChange={(event) => setJson(event.target.checked)} /> is JSON
        </label>
        <label className="flex items-center gap-1.5">
          <input type="checkbox" checked={isError} onChange={(event) => setError(event.target.checked)} /> says why it
          failed
        </label>
      </div>
    </TextForm>
  );
}

type Questions = readonly CallQuestion[];

/** The questions of a tool to a person, in the tool's words. */
export function Questions({ questions }: Readonly<{ questions: Questions }>): ReactNode {
  return questions.map(({ key, message, url }) => (
    <p key={key} className="wrap-anywhere" dir="auto">
      {message}
      {url !== undefined && (
        <>
          {' '}
          <a className="text-accent underline underline-offset-2" href={url} target="_blank" rel="noreferrer noopener">
            {url}
          </a>
        </>
      )}
    </p>
  ));
}

/** The form of a question as JSON to be filled in. Its schema is shown beside it. */
export function QuestionForm({
  questions,
  close,
  isBusy,
  answer,
}: FormProps & Readonly<{ questions: Questions }>): ReactNode {
  const schemas = questions.flatMap(({ schema }) => (schema === undefined ? [] : [schema]));
  return (
    <TextForm
      label="Answer, as JSON"
      act="Answer"
      initial={JSON.stringify(emptyAnswer(questions), null, 2)}
      isCode
      close={close}
      isBusy={isBusy}
      problem={jsonProblem}
      submit={(text) => answer({ output: parseJson(text) as Json })}
    >
      {schemas.length > 0 && (
        <details>
          <summary>Fields</summary>
          <pre className="plain max-h-[30vh] overflow-auto rounded border border-line bg-panel px-3 py-2" dir="auto">
            {JSON.stringify(schemas.length === 1 ? schemas[0] : schemas, null, 2)}
          </pre>
        </details>
      )}
    </TextForm>
  );
}

/** Each form with its fields, which have their defaults. With several questions each form stands by its key. */
function emptyAnswer(questions: Questions): unknown {
  const forms = questions.map(({ key, schema }): [string, unknown] => [key, emptyForm(schema?.['properties'])]);
  return forms.length === 1 ? forms[0]?.[1] : Object.fromEntries(forms);
}

function emptyForm(properties: unknown): unknown {
  if (typeof properties !== 'object' || properties === null) return {};
  const fields = Object.entries(properties as Readonly<Record<string, { default?: unknown } | null>>);
  return Object.fromEntries(fields.map(([name, field]) => [name, field?.default ?? null]));
}

export function ArgumentsForm({ args, close, isBusy, answer }: FormProps & Readonly<{ args: Json }>): ReactNode {
  return (
    <TextForm
      label="Arguments to run it with, as JSON"
      act="Approve with these"
      initial={JSON.stringify(args, null, 2)}
      isCode
      close={close}
      isBusy={isBusy}
      problem={argumentsProblem}
      submit={(text) => answer({ decision: 'approve', args: parseJson(text) as Readonly<Record<string, Json>> })}
    />
  );
}

function argumentsProblem(text: string): string | null {
  const problem = jsonProblem(text);
  if (problem !== null) return problem;
  const value: unknown = JSON.parse(text);
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? null : 'Arguments are a JSON object: {"name": …}';
}

function jsonProblem(text: string): string | null {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return `This is no JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
}
