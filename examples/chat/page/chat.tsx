import { useChat } from '@ai-sdk/react';
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from 'ai';
import { type RefObject, useEffect, useRef, useState } from 'react';
import type { Attachment } from './attachments.ts';
import { type ChatMessage, isAsking, type Meter, meterIn, queuedIn, readJson } from './chat-message.ts';
import { Composer } from './composer.tsx';
import { ContextMeter } from './context-meter.tsx';
import { MessageView } from './message-view.tsx';

type Props = Readonly<{ id: string; messages: ChatMessage[]; meter: Meter }>;

/** A chat with a session: it streams, goes on after a reload, queues, stops, and asks for approvals. */
export function Chat({ id, messages: known, meter }: Props) {
  const [notice, setNotice] = useState(lastCompaction(meter));
  const chat = useChat<ChatMessage>({
    id,
    messages: known,
    transport: new DefaultChatTransport({ api: '/api/chat' }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    onData(part) {
      if (part.type === 'data-pruning') setNotice(cleared(part.data));
      if (part.type !== 'data-compaction') return;
      const { phase, text, tokensBefore, tokensAfter } = part.data;
      setNotice(phase === 'compacted' ? compressed(tokensBefore, tokensAfter) : text);
    },
  });
  const { messages, status, error } = chat;
  const isUsed = useRef(false);
  useResume(id, isUsed, chat);
  const isBusy = status === 'submitted' || status === 'streaming' || isAsking(messages);
  const queued = queuedIn(messages);

  const send = (text: string, files: Attachment[]): void => {
    isUsed.current = true;
    const metadata = isBusy ? { queue: { position: queued.length + 1 } } : undefined;
    void chat.sendMessage({
      ...(text.trim() === '' ? { files } : { text, files }),
      ...(metadata !== undefined && { metadata }),
    });
  };
  const stop = (): void => void fetch(`/api/chat/${encodeURIComponent(id)}/stop`, { method: 'POST' });
  const answer = (approvalId: string, approved: boolean): void => {
    isUsed.current = true;
    void chat.addToolApprovalResponse({ id: approvalId, approved });
  };

  return (
    <main>
      <header>
        <h1>Baton</h1>
        <ContextMeter {...(meterIn(messages) ?? meter)} />
        {queued.length > 0 && <span className="badge">{queued.length} queued</span>}
      </header>
      <Transcript messages={messages} queued={queued} onAnswer={answer} />
      {notice !== null && <p className="notice">{notice}</p>}
      {error !== undefined && <p className="failure">{error.message}</p>}
      <Composer isBusy={isBusy} onSend={send} onStop={stop} />
    </main>
  );
}

/**
 * What is being written when the page is opened is shown from its beginning. What ended after the page had read its
 * messages, and before it asked for that, is in neither: where nothing was being written, they are read again.
 */
function useResume(
  id: string,
  isUsed: Readonly<RefObject<boolean>>,
  { resumeStream, setMessages }: ReturnType<typeof useChat<ChatMessage>>,
) {
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, when the page is opened.
  useEffect(() => {
    const resume = async (): Promise<void> => {
      await resumeStream();
      const { messages } = await readJson<{ messages: ChatMessage[] }>(`/api/chat/${encodeURIComponent(id)}/messages`);
      // What somebody has said or allowed by then would be taken back.
      if (!isUsed.current) setMessages(messages);
    };
    resume().catch(() => undefined);
  }, []);
}

type TranscriptProps = Readonly<{
  messages: readonly ChatMessage[];
  queued: readonly ChatMessage[];
  onAnswer: (approvalId: string, approved: boolean) => void;
}>;

function Transcript({ messages, queued, onAnswer }: TranscriptProps) {
  const end = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: whatever is added, the newest is in sight.
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
