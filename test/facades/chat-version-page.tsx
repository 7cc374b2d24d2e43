import type * as react from '@ai-sdk/react';
import type * as sdk from 'ai';
import { useState } from 'react';
import { createRoot } from 'react-dom/client';

// A page with the `useChat` of any version. Its types are those of the newest one, whose functions the others have, too.

type Options = Readonly<{
  useChat: typeof react.useChat;
  transport: typeof sdk.DefaultChatTransport;
  sendAutomaticallyWhen: (chat: { messages: sdk.UIMessage[] }) => boolean;
  /** What the page says of its version. */
  headers: Record<string, string>;
}>;

type Chat = ReturnType<typeof react.useChat>;
type Part = sdk.UIMessage['parts'][number];
type ToolPart = Extract<Part, { toolCallId: string }>;
type Asked = Readonly<{ approvalId: string; toolCallId: string; text: string }>;

/** Shows the chat that the address names, with all that is said in it so far. */
export async function openPage(options: Options): Promise<void> {
  const { searchParams } = new URL(location.href);
  const id = searchParams.get('id') ?? '';
  const answer = await fetch(`/api/chat/${id}/messages`, { headers: options.headers });
  const { messages } = (await answer.json()) as { messages: sdk.UIMessage[] };
  const root = createRoot(document.body.appendChild(document.createElement('main')));
  root.render(<Page {...options} id={id} agent={searchParams.get('agent') ?? ''} earlier={messages} />);
}

type PageProps = Options & Readonly<{ id: string; agent: string; earlier: sdk.UIMessage[] }>;

function Page({ id, agent, earlier, useChat, transport: Transport, sendAutomaticallyWhen, headers }: PageProps) {
  const [text, setText] = useState('');
  const [place, setPlace] = useState<unknown>(null);
  const chat = useChat({
    id,
    messages: earlier,
    resume: !isAsked(earlier.at(-1)),
    transport: new Transport({ api: '/api/chat', body: { agent }, headers }),
    sendAutomaticallyWhen,
    onData: ({ type, data }) => {
      if (type === 'data-queue') setPlace(data);
    },
  });
  const send = (): void => {
    setText('');
    void chat.sendMessage({ text });
  };
  return (
    <>
      {chat.messages.map((message) => (
        <article key={message.id} className={message.role}>
          {message.parts.map((part, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: parts are only ever added at the end.
            <PartView key={index} part={part} message={message} chat={chat} />
          ))}
        </article>
      ))}
      <output>{chat.status}</output>
      {place !== null && <p className="queue">{JSON.stringify(place)}</p>}
      {chat.error !== undefined && <p role="alert">{chat.error.message}</p>}
      <input aria-label="Message" value={text} onChange={({ target }) => setText(target.value)} />
      <button type="button" onClick={send}>
        Send
      </button>
      <button type="button" onClick={() => void fetch(`/api/chat/${id}/stop`, { method: 'POST' })}>
        Stop
      </button>
    </>
  );
}

const isAsked = (message: sdk.UIMessage | undefined): boolean =>
  message?.parts.some(
    (part) => part.type === 'data-approval' || ('state' in part && part.state === 'approval-requested'),
  ) ?? false;

type PartProps = Readonly<{ part: Part; message: sdk.UIMessage; chat: Chat }>;

function PartView({ part, message, chat }: PartProps) {
  if ('toolCallId' in part) return <ToolView part={part} chat={chat} />;
  if (part.type === 'data-approval') return <Question asked={part.data as Asked} message={message} chat={chat} />;
  switch (part.type) {
    case 'text':
      return <p className="text">{part.text}</p>;
    case 'reasoning':
      return <p className="reasoning">{part.text}</p>;
    case 'file':
      return <p className="file">{part.url}</p>;
    case 'source-url':
      return <p className="source">{part.url}</p>;
    case 'source-document':
      return <p className="source">{part.filename}</p>;
    case 'steering-message':
      return <p className="steering">{JSON.stringify(part.parts)}</p>;
    case 'data-steering-message':
      return <p className="steering">{JSON.stringify(part.data)}</p>;
    case 'data-reset-step':
      return <hr />;
    default:
      return null;
  }
}

function ToolView({ part, chat }: Readonly<{ part: ToolPart; chat: Chat }>) {
  const { state, type } = part;
  const decide = (approved: boolean): void => {
    if (state === 'approval-requested') void chat.addToolApprovalResponse({ id: part.approval.id, approved });
  };
  return (
    <section className="tool" data-state={state}>
      {type} {JSON.stringify(part.input)} {state === 'output-available' && JSON.stringify(part.output)}
      {state === 'output-error' && part.errorText}
      {state === 'approval-requested' && <Decision decide={decide} />}
    </section>
  );
}

/** The question about a call, for a version that has no approvals of its own. */
function Question({ asked, message, chat }: Readonly<{ asked: Asked; message: sdk.UIMessage; chat: Chat }>) {
  const { approvalId, toolCallId, text } = asked;
  const call = message.parts.find((part): part is ToolPart => 'toolCallId' in part && part.toolCallId === toolCallId);
  if (call?.state !== 'input-available') return null;
  const tool = call.type.slice('tool-'.length);
  const decide = (approved: boolean): void =>
    void chat.addToolOutput({ tool, toolCallId, output: { approvalId, approved } });
  return (
    <section className="question">
      {tool}: {text} <Decision decide={decide} />
    </section>
  );
}

const Decision = ({ decide }: Readonly<{ decide: (approved: boolean) => void }>) => (
  <>
    <button type="button" onClick={() => decide(true)}>
      Approve
    </button>
    <button type="button" onClick={() => decide(false)}>
      Deny
    </button>
  </>
);
