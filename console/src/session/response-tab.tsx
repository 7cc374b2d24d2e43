import type { Message, StepRow, ToolPart } from '@baton-run/server/client';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { client } from '../api.ts';
import { duration } from '../format.ts';
import { Id } from '../ui/copy.tsx';
import { Failure, SkeletonRows } from '../ui/empty.tsx';
import { State } from '../ui/state.tsx';
import { MessageView } from './message-view.tsx';
import { useLive, useOpened, useTranscript } from './session-context.tsx';
import { CallDetails } from './tool-view.tsx';

type Read = Readonly<{ message: Message | null | undefined; error: unknown; retry: () => void }>;

/** The message of a step, from the transcript or else from the service. Null: the message was superseded. */
export function useMessageOf({ seq, messageId }: StepRow): Read {
  const { sessionId } = useOpened();
  const known = useTranscript().at(seq);
  const { data, error, refetch } = useQuery({
    queryKey: ['session', sessionId, 'message', seq],
    queryFn: async ({ signal }) => {
      const { messages } = await client.messages(sessionId, { after: seq - 1, limit: 1, signal });
      return messages.find(({ id }) => id === messageId) ?? null;
    },
    enabled: known === undefined,
  });
  return { message: known === undefined ? data : known, error, retry: () => void refetch() };
}

function OfMessage({
  row,
  children,
}: Readonly<{ row: StepRow; children: (message: Message) => ReactNode }>): ReactNode {
  const { message, error, retry } = useMessageOf(row);
  if (message === undefined)
    return error === null ? <SkeletonRows rows={3} height={40} /> : <Failure error={error} retry={retry} />;
  if (message === null) {
    return (
      <p className="text-dim">
        The answer of this attempt broke off, and another attempt has replaced it: the transcript does not keep it.
      </p>
    );
  }
  return children(message);
}

const NO_ACTIONS = {
  fork: () => undefined,
  editAndSend: () => undefined,
  openStep: () => undefined,
  refusal: 'Use the transcript for this',
};

/** The answer of the model in a step. */
export function ResponseTab({ row }: Readonly<{ row: StepRow }>): ReactNode {
  const live = useLive();
  return (
    <OfMessage row={row}>
      {(message) => (
        <div className="-mx-4">
          <MessageView
            message={message}
            live={live?.messageId === message.id ? live : null}
            isChosen={false}
            actions={NO_ACTIONS}
          />
        </div>
      )}
    </OfMessage>
  );
}

const isCall = (part: Message['parts'][number]): part is ToolPart => part.type === 'tool';

/** The calls of a step with input, output and their times. */
export function ToolsTab({ row }: Readonly<{ row: StepRow }>): ReactNode {
  if (row.tools.length === 0) return <p className="text-dim">The model called no tool in this step.</p>;
  return (
    <OfMessage row={row}>
      {(message) => (
        <div className="flex flex-col gap-4">
          {message.parts.filter(isCall).map((part) => (
            <Call key={part.id} part={part} row={row} />
          ))}
        </div>
      )}
    </OfMessage>
  );
}

function Call({ part, row }: Readonly<{ part: ToolPart; row: StepRow }>): ReactNode {
  const timed = row.tools.find(({ id }) => id === part.id);
  const tookMs =
    timed?.startedAt == null || timed.finishedAt === null
      ? null
      : Date.parse(timed.finishedAt) - Date.parse(timed.startedAt);
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for controls, and a section would be a landmark.
    <div role="group" className="flex flex-col gap-2" aria-label={part.toolName}>
      <h3 className="flex flex-wrap items-center gap-2">
        <span className="font-mono">{part.toolName}</span>
        <State state={part.state} />
        {tookMs !== null && <span className="font-normal text-dim">{duration(tookMs)}</span>}
        {part.id !== undefined && <Id id={part.id} chars={10} />}
      </h3>
      <CallDetails part={part} />
    </div>
  );
}
