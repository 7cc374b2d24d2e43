import { createRoot } from 'react-dom/client';
import { Chat } from './chat.tsx';
import { type Meter, readJson, readMessages } from './chat-message.ts';
import './main.css';

/** The chat id in the address. Without one the page gets a new id, and writes it into the address for reloads. */
async function chatOfAddress(): Promise<string> {
  const asked = new URLSearchParams(location.search);
  const named = asked.get('chat');
  if (named !== null) return named;
  const agent = asked.get('agent');
  const chats = agent === null ? '/chats' : `/chats?agent=${encodeURIComponent(agent)}`;
  const { id } = await readJson<{ id: string }>(chats, { method: 'POST' });
  history.replaceState(null, '', `/?chat=${id}`);
  return id;
}

/** Opens the chat of the address with its messages. */
async function open(): Promise<void> {
  const root = createRoot(document.getElementById('root') ?? document.body);
  try {
    const id = await chatOfAddress();
    const path = encodeURIComponent(id);
    const [messages, meter, { agents }] = await Promise.all([
      readMessages(id),
      readJson<Meter>(`/context/${path}`),
      readJson<{ agents: string[] }>('/agents'),
    ]);
    root.render(<Chat id={id} messages={messages} meter={meter} agents={agents} />);
  } catch (error) {
    root.render(<p className="failure">The chat cannot be opened: {String(error)}</p>);
  }
}

await open();
