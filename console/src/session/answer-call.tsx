import type { RequiredAction, Run, ToolCallAnswer } from '@baton-run/server/client';
import { useMutation } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { client } from '../api.ts';
import { failureWords } from '../format.ts';
import { useRefusal } from '../layout/caller.ts';
import { notify } from '../notices.ts';
import { ArgumentsForm, DenyForm, OutputForm, QuestionForm, Questions } from '../pages/answer-forms.tsx';
import { Time } from '../ui/time.tsx';

type Form = 'deny' | 'arguments' | 'output' | 'question';
type Offer = Readonly<{ words: string; form: Form | null; isMain?: boolean }>;

/** By kind of call: its question to a person, and the answers to it. `form: null`: the answer needs no form. */
const ASKS: Readonly<Record<RequiredAction['kind'], Readonly<{ words: string; offers: readonly Offer[] }>>> = {
  approval: {
    words: 'The agent wants to run this. It waits for your decision.',
    offers: [
      { words: 'Approve', form: null, isMain: true },
      { words: 'Approve with other arguments…', form: 'arguments' },
      { words: 'Deny…', form: 'deny' },
    ],
  },
  output: {
    words: 'You, or a client, run this call, and its output goes to the agent.',
    offers: [
      { words: 'Give its output…', form: 'output', isMain: true },
      { words: 'Deny…', form: 'deny' },
    ],
  },
  unknown_outcome: {
    words: 'The worker died while the call ran, which may or may not have taken effect. Look, and decide.',
    offers: [
      { words: 'Run it again', form: null },
      { words: 'Give its output…', form: 'output' },
      { words: 'Tell the agent that the outcome is unknown…', form: 'deny' },
    ],
  },
  input: {
    words: 'The tool has begun and asks for more before it goes on.',
    offers: [
      { words: 'Answer…', form: 'question', isMain: true },
      { words: 'Decline…', form: 'deny' },
    ],
  },
};

/** Asks the person for the answer that a call waits for. */
export function AnswerCall({ run, action }: Readonly<{ run: Run; action: RequiredAction }>): ReactNode {
  const refusal = useRefusal('write');
  const [form, open] = useState<Form | null>(null);
  const { mutate, isPending, error } = useMutation({
    mutationFn: (answer: ToolCallAnswer) => client.runs.answer(run.id, action.id, answer),
    onSuccess: ({ open: left }) => notify(left === 0 ? 'Answered: the run goes on' : `Answered: ${left} more wait`),
  });
  const { words, offers } = ASKS[action.kind];
  const props = { close: () => open(null), isBusy: isPending, answer: (given: ToolCallAnswer) => mutate(given) };
  return (
    <div className="mt-1 flex flex-col gap-2 rounded border border-waiting p-2" data-required={action.id}>
      <p>
        {words}
        {run.approvalExpiresAt !== null && (
          <span className="text-dim">
            {' '}
            The time for an answer ends <Time at={run.approvalExpiresAt} />.
          </span>
        )}
      </p>
      <Questions questions={action.questions ?? []} />
      {form === null && (
        <div className="flex flex-wrap gap-2">
          {offers.map((offer) => (
            <button
              key={offer.words}
              type="button"
              className={`button small ${offer.isMain === true ? 'main' : ''}`}
              disabled={refusal !== undefined || isPending}
              title={refusal}
              onClick={() => (offer.form === null ? mutate({ decision: 'approve' }) : open(offer.form))}
            >
              {offer.words}
            </button>
          ))}
        </div>
      )}
      {form === 'deny' && <DenyForm {...props} />}
      {form === 'arguments' && <ArgumentsForm args={action.args} {...props} />}
      {form === 'output' && <OutputForm {...props} />}
      {form === 'question' && <QuestionForm questions={action.questions ?? []} {...props} />}
      {error !== null && (
        <p role="alert" className="text-failed wrap-anywhere">
          {failureWords(error)}
        </p>
      )}
      {refusal !== undefined && <p className="text-dim">{refusal}: you cannot answer.</p>}
    </div>
  );
}
