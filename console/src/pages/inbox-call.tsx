import type { ToolCallAnswer, WaitingCall } from '@baton-run/server/client';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { act } from '../act.ts';
import { client } from '../api.ts';
import { ACTIONS, useCommands } from '../commands.ts';
import { clipped, plural } from '../format.ts';
import { useKeys } from '../keys.ts';
import { useRefusal } from '../layout/caller.ts';
import { ActionButton } from '../ui/action-button.tsx';
import { CopyButton, Id } from '../ui/copy.tsx';
import { ActionDialog } from '../ui/dialog.tsx';
import { State } from '../ui/state.tsx';
import { Time } from '../ui/time.tsx';
import { ArgumentsForm, DenyForm, type FormProps, OutputForm, QuestionForm, Questions } from './answer-forms.tsx';

/** More characters would make the page slow. The copy button and the page of the session have all of them. */
const MAX_SHOWN_CHARS = 100_000;

type Form = 'deny' | 'arguments' | 'output';

/** A waiting call, with its arguments and the buttons and forms to answer it. */
export function InboxCall({ call, done }: Readonly<{ call: WaitingCall; done: () => void }>): ReactNode {
  const [form, setForm] = useState<Form | null>(null);
  const [isAsked, setAsked] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const refused = useRefusal('write');
  const answer = async (given: ToolCallAnswer): Promise<void> => {
    setBusy(true);
    const isDone = await act(async () => {
      const { open } = await client.runs.answer(call.runId, call.id, given);
      return `${WORDS[wordOf(given)]} ${clipped(call.toolName, 60)}. ${open === 0 ? 'The run goes on.' : `The run waits for ${plural(open, 'more call')}.`}`;
    });
    setBusy(false);
    if (isDone) done();
  };
  const takes = TAKES[call.kind];
  const offers = [
    { keys: 'a', words: takes.approve, run: () => void answer({ decision: 'approve' }) },
    { keys: 'e', words: takes.arguments, run: () => setForm('arguments') },
    { keys: 'o', words: takes.output, run: () => setForm('output') },
    { keys: 'x', words: takes.deny, run: () => setForm('deny') },
  ].flatMap(({ words, ...offer }) => (words === null ? [] : [{ ...offer, words, refused }]));
  useCommands(offers.map((offer) => ({ group: ACTIONS, ...offer })));
  useKeys(
    'The chosen call',
    Object.fromEntries(
      offers.map(({ keys, words, run }) => {
        const press = keys === 'a' ? () => setAsked(true) : run;
        return [keys, [words, refused === undefined ? press : () => undefined] as const];
      }),
    ),
  );
  const close = (): void => setForm(null);
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <CallText call={call} />
      <div className="flex-none border-t border-line bg-panel px-4 py-3">
        {form === null && (
          <div className="flex flex-wrap items-center gap-2">
            {offers.map(({ keys, words, run }) => (
              <ActionButton
                key={keys}
                keys={keys}
                run={run}
                refused={refused}
                isBusy={isBusy}
                look={
                  keys === 'a' || (keys === 'o' && call.kind !== 'unknown_outcome')
                    ? 'main'
                    : keys === 'x'
                      ? 'danger'
                      : 'plain'
                }
              >
                {words}
              </ActionButton>
            ))}
            {refused !== undefined && <span className="text-dim">{refused}</span>}
          </div>
        )}
        {isAsked && takes.approve !== null && (
          <ActionDialog
            isOpen={true}
            close={() => setAsked(false)}
            title={`${takes.approve}: ${clipped(call.toolName, 60)}?`}
            act={takes.approve}
            run={() => answer({ decision: 'approve' })}
          >
            <p>The call runs with the arguments that the page shows.</p>
          </ActionDialog>
        )}
        <AnswerForm call={call} form={form} close={close} isBusy={isBusy} answer={(given) => void answer(given)} />
      </div>
    </div>
  );
}

/** The call's session, questions and arguments. */
function CallText({ call }: Readonly<{ call: WaitingCall }>): ReactNode {
  const json = JSON.stringify(call.args, null, 2);
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolled region must be reached by keys. */}
      <div className="min-h-0 flex-1 overflow-auto px-4 py-3" tabIndex={0} data-scroller="">
        <About call={call} />
        <Questions questions={call.questions ?? []} />
        <div className="mt-4 flex items-center gap-1">
          <h3>Arguments</h3>
          <CopyButton text={json} label="Copy the arguments" />
        </div>
        <pre className="plain mt-1 rounded border border-line bg-panel px-3 py-2" dir="auto">
          {clipped(json, MAX_SHOWN_CHARS)}
        </pre>
        {json.length > MAX_SHOWN_CHARS && (
          <p className="mt-1 text-dim">Only the beginning is shown; the button above copies all.</p>
        )}
      </div>
    </>
  );
}

/** The form of the chosen answer. */
function AnswerForm({
  call,
  form,
  ...props
}: FormProps & Readonly<{ call: WaitingCall; form: Form | null }>): ReactNode {
  switch (form) {
    case null:
      return null;
    case 'deny':
      return <DenyForm {...props} />;
    case 'output':
      return call.kind === 'input' ? (
        <QuestionForm questions={call.questions ?? []} {...props} />
      ) : (
        <OutputForm {...props} />
      );
    case 'arguments':
      return <ArgumentsForm args={call.args} {...props} />;
  }
}

/** The answers that a person may give to each kind of call, in words. */
const TAKES = {
  approval: { approve: 'Approve', arguments: 'Approve with other arguments', output: null, deny: 'Deny' },
  output: { approve: null, arguments: null, output: 'Answer', deny: 'Deny' },
  unknown_outcome: {
    approve: 'Run it again',
    arguments: null,
    output: 'Give its output',
    deny: 'Tell the model that the outcome is unknown',
  },
  input: { approve: null, arguments: null, output: 'Answer', deny: 'Decline' },
} as const;

const WORDS = { approve: 'Approved', deny: 'Denied', output: 'Answered' } as const;

const wordOf = (given: ToolCallAnswer): keyof typeof WORDS => ('decision' in given ? given.decision : 'output');

function About({ call }: Readonly<{ call: WaitingCall }>): ReactNode {
  const { toolName, kind, sessionName, sessionId, agent, step, askedAt, expiresAt, userWords, runId } = call;
  return (
    <>
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <h2 className="font-mono wrap-anywhere">{clipped(toolName, 200)}</h2>
        <State state={kind} />
        <span className="text-dim">{EXPLAINED[kind]}</span>
      </div>
      <dl className="mt-3 grid grid-cols-[max-content_1fr] gap-x-4 gap-y-1">
        <dt className="text-dim">Session</dt>
        <dd className="flex min-w-0 items-center gap-2">
          <Link
            to="/sessions/$sessionId"
            params={{ sessionId }}
            className="truncate text-accent underline underline-offset-2"
            dir="auto"
          >
            {clipped(sessionName, 200)}
          </Link>
          <Id id={sessionId} />
        </dd>
        <dt className="text-dim">Run</dt>
        <dd>
          <Id id={runId} /> step {step} of {agent}
        </dd>
        <dt className="text-dim">Waits</dt>
        <dd>
          since <Time at={askedAt} />
          {expiresAt === null ? ', without a deadline' : ', until '}
          {expiresAt !== null && <Time at={expiresAt} />}
        </dd>
        <dt className="text-dim">User</dt>
        <dd className="min-w-0 whitespace-pre-wrap wrap-anywhere" dir="auto">
          {userWords === null ? <span className="text-dim">has not said anything</span> : userWords.text || '…'}
        </dd>
      </dl>
    </>
  );
}

const EXPLAINED = {
  approval: 'It runs once it is approved.',
  output: 'A client runs it and gives its output.',
  unknown_outcome: 'Its worker died while it ran: it may or may not have taken effect.',
  input: 'The tool has begun and asks for more.',
} as const;
