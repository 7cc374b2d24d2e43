import { createRoot } from 'react-dom/client';
import { Chat } from './chat.tsx';
import { type ChatMessage, type Meter, readJson } from './chat-message.ts';
import './main.css';

/** The chat that the address names. Without one it gets a new one, to which a reload comes back. */
async function chatOfAddress(): Promise<string> {
  const named = new URLSearchParams(location.search).get('chat');
  if (named !== null) return named;
  const { id } = await readJson<{ id: string }>('/chats', { method: 'POST' });
  history.replaceState(null, '', `/?chat=${id}`);
  return id;
}

/** Opens the chat of the address, with what was said in it. */
async function open(): Promise<void> {
  const root = createRoot(document.getElementById('root') ?? document.body);
  try {
    const id = await chatOfAddress();
    const path = encodeURIComponent(id);
    const [{ messages }, meter] = await Promise.all([
      readJson<{ messages: ChatMessage[] }>(`/api/chat/${path}/messages`),
      readJson<Meter>(`/context/${path}`),
    ]);
    root.render(<Chat id={id} messages={messages} meter={meter} />);
  } catch (error) {
    root.render(<p className="failure">The chat cannot be opened: {String(error)}</p>);
  }
}

await open();
