import { type FormEvent, useState } from 'react';

type Props = Readonly<{ isBusy: boolean; onSend: (text: string) => void; onStop: () => void }>;

/** Where one writes: also while the agent is at work, and then it says what becomes of it. */
export function Composer({ isBusy, onSend, onStop }: Props) {
  const [text, setText] = useState('');
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (text.trim() === '') return;
    onSend(text);
    setText('');
  };
  return (
    <form onSubmit={submit}>
      <input
        name="message"
        autoComplete="off"
        aria-label="Message"
        placeholder={isBusy ? 'Your message will be queued' : 'Your message'}
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <button type="submit" disabled={text.trim() === ''}>
        {isBusy ? 'Queue' : 'Send'}
      </button>
      {isBusy && (
        <button type="button" className="stop" onClick={onStop}>
          Stop
        </button>
      )}
    </form>
  );
}
