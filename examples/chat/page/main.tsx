import { createRoot } from 'react-dom/client';
import { Chat } from './chat.tsx';
import { type ChatMessage, type Meter, readJson } from './chat-message.ts';
import './main.css';

/** Opens the chat that the address names, with what was said in it. */
async function open(): Promise<void> {
  const id = new URLSearchParams(location.search).get('chat') ?? '';
  const root = createRoot(document.getElementById('root') ?? document.body);
  try {
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
