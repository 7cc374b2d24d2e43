import { useChat } from '@ai-sdk/react';
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from 'ai';
import { useEffect, useRef, useState } from 'react';
import type { Attachment } from './attachments.ts';
import {
  answeredIn,
  type ChatMessage,
  failureIn,
  isAsking,
  type Meter,
  meterIn,
  queuedIn,
  SDK,
  split,
} from './chat-message.ts';
import { Composer } from './composer.tsx';
import { ContextMeter } from './context-meter.tsx';
import { useFollow } from './follow.ts';
import { MessageView } from './message-view.tsx';

type Props = Readonly<{ id: string; messages: ChatMessage[]; meter: Meter; agents: readonly string[] }>;

/**
 * A chat with a session: it streams, resumes after a reload or restart, queues messages, stops, and asks for approvals.
 */
export function Chat({ id, messages: known, meter, agents }: Props) {
  const [notice, setNotice] = useState(lastCompaction(meter));
  const [opened] = useState(() => split(known));
  const [waiting, setWaiting] = useState(opened.waiting);
  const chat = useChat<ChatMessage>({
    id,
    messages: opened.said,
    transport: new DefaultChatTransport({ api: '/api/chat', headers: SDK }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    onData(part) {
      if (part.type === 'data-pruning') setNotice(cleared(part.data));
      if (part.type !== 'data-compaction') return;
      const { phase, text, tokensBefore, tokensAfter } = part.data;
      setNotice(phase === 'compacted' ? compressed(tokensBefore, tokensAfter) : text);
    },
  });
  const { messages, status, error } = chat;
  const acts = useRef(0);
  useFollow(chat, acts, (stored) => {
    const { said, waiting: queue } = split(stored);
    setWaiting(queue);
    chat.setMessages(said);
  });
  const isBusy = status === 'submitted' || status === 'streaming' || isAsking(messages);
  const queued = queuedIn(messages, waiting);
  const shown = [...messages, ...queued.filter((message) => !messages.includes(message))];

  const send = (text: string, files: Attachment[]): void => {
    acts.current += 1;
    const metadata = isBusy ? { queue: { position: queued.length + 1 } } : undefined;
    void chat.sendMessage({
      ...(text.trim() === '' ? { files } : { text, files }),
      ...(metadata !== undefined && { metadata }),
    });
  };
  const retry = (): void => {
    acts.current += 1;
    const isUnsent = answeredIn(messages).length > 0 && failureIn(messages) === null;
    void (isUnsent ? chat.sendMessage() : chat.regenerate());
  };
  const failure = isBusy ? null : error === undefined ? failureIn(messages) : reasonOf(error);
  const stop = (): void => void fetch(`/api/chat/${encodeURIComponent(id)}/stop`, { method: 'POST' });
  const answer = (approvalId: string, approved: boolean): void => {
    acts.current += 1;
    void chat.addToolApprovalResponse({ id: approvalId, approved });
  };

  return (
    <main>
      <header>
        <h1>Baton</h1>
        <NewChat agents={agents} />
        <ContextMeter {...(meterIn(messages) ?? meter)} />
        {queued.length > 0 && <span className="badge">{queued.length} queued</span>}
      </header>
      <Transcript messages={shown} queued={queued} onAnswer={answer} />
      {notice !== null && <p className="notice">{notice}</p>}
      {failure !== null && (
        <p className="failure">
          {failure}{' '}
          <button type="button" onClick={retry}>
            Retry
          </button>
        </p>
      )}
      <Composer isBusy={isBusy} onSend={send} onStop={stop} />
    </main>
  );
}

type ChoiceProps = Readonly<{ agents: readonly string[] }>;

/** Starts another chat with the selected agent. */
function NewChat({ agents }: ChoiceProps) {
  const begin = (agent: string): void => location.assign(`/?agent=${encodeURIComponent(agent)}`);
  return (
    <select aria-label="New chat" value="" onChange={(event) => begin(event.target.value)}>
      <option value="" disabled>
        New chat…
      </option>
      {agents.map((agent) => (
        <option key={agent}>{agent}</option>
      ))}
    </select>
  );
}

type TranscriptProps = Readonly<{
  messages: readonly ChatMessage[];
  queued: readonly ChatMessage[];
  onAnswer: (approvalId: string, approved: boolean) => void;
}>;

function Transcript({ messages, queued, onAnswer }: TranscriptProps) {
  const end = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: every change of the messages scrolls to the newest one.
  useEffect(() => {
    end.current?.scrollIntoView({ block: 'end' });
  }, [messages]);
  return (
    <section className="transcript" aria-live="polite">
      {messages.length === 0 && <p className="empty">Ask something about the files of this workspace.</p>}
      {messages.map((message) => (
        <MessageView key={message.id} message={message} isQueued={queued.includes(message)} onAnswer={onAnswer} />
      ))}
      <div ref={end} />
    </section>
  );
}

const compressed = (before = 0, after = 0): string =>
  `Context compressed: ${before.toLocaleString('en-US')} → ${after.toLocaleString('en-US')} tokens`;

const cleared = ({ prunedCount, savedTokens }: Readonly<{ prunedCount: number; savedTokens: number }>): string =>
  `Old tool outputs cleared: ${prunedCount}, ${savedTokens.toLocaleString('en-US')} tokens`;

function lastCompaction({ compactions = [] }: Meter): string | null {
  const last = compactions.find(({ tokensAfter }) => tokensAfter !== null);
  return last === undefined ? null : compressed(last.tokensBefore, last.tokensAfter ?? 0);
}

/** For a request that failed before an answer, browsers give only their own vague text. */
const reasonOf = (error: Error): string =>
  error instanceof TypeError
    ? 'The service does not answer at the moment. This page goes on as soon as it does.'
    : error.message;
