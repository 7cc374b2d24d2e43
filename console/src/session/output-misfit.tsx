import type { Message, Run } from '@baton-run/server/client';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { client } from '../api.ts';
import { Failure } from '../ui/empty.tsx';
import { jsonText, LongText } from './long-text.tsx';

/** The tool by which a model gives its result. */
const RESULT_TOOL = 'final_result';

/** The result that an ended run was asked for, and the answer that it gave last. Why that does not fit is its error. */
export function OutputMisfit({ run }: Readonly<{ run: Run }>): ReactNode {
  const { data, error, refetch } = useQuery({
    queryKey: ['run', run.id, 'misfit', run.finishedAt],
    queryFn: async ({ signal }) => {
      const [asked, last] = await Promise.all([
        client.runs.get(run.id, { signal }),
        client.messages(run.sessionId, { runId: run.id, order: 'desc', limit: 1, signal }),
      ]);
      return { format: asked.outputFormat ?? null, answer: last.messages[0] };
    },
    staleTime: 60_000,
  });
  if (error !== null) return <Failure error={error} retry={() => void refetch()} />;
  if (data === undefined) return <p className="text-dim">Reading what was asked…</p>;
  return (
    <div className="flex w-full min-w-0 flex-col gap-2">
      <Shown words="Requested schema of the result" text={jsonText(data.format?.schema ?? null)} />
      <Shown words="Last answer of the model" text={data.answer === undefined ? '' : answerText(data.answer)} />
    </div>
  );
}

/** The text of an answer; the result that it gave by a call, if it gave one. */
function answerText({ parts }: Message): string {
  const call = parts.findLast((part) => part.type === 'tool' && part.toolName === RESULT_TOOL);
  if (call?.type === 'tool') return jsonText(call.input);
  return parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('');
}

const Shown = ({ words, text }: Readonly<{ words: string; text: string }>): ReactNode => (
  <div className="min-w-0">
    <p className="text-sm text-dim">{words}</p>
    {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolled region must be reached by keys. */}
    <section tabIndex={0} aria-label={words} className="max-h-72 overflow-auto rounded border border-line p-2">
      {text === '' ? <span className="text-dim">nothing</span> : <LongText text={text} />}
    </section>
  </div>
);
