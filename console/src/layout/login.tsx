import { type FormEvent, type ReactNode, useId, useState } from 'react';
import { logIn, queries } from '../api.ts';
import { failureWords } from '../format.ts';

/** Asks for an API key. The service makes a login of it, and the page forgets the key. */
export function Login({ reason }: Readonly<{ reason: string | null }>): ReactNode {
  const [key, setKey] = useState('');
  const [failure, setFailure] = useState<string | null>(reason);
  const [isBusy, setBusy] = useState(false);
  const field = useId();
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    try {
      await logIn(key.trim());
      setKey('');
      await queries.resetQueries();
    } catch (error) {
      setFailure(failureWords(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <main className="flex h-full items-center justify-center p-4">
      <form onSubmit={(event) => void submit(event)} className="flex w-96 max-w-full flex-col gap-3">
        <h1 className="text-lg">Baton</h1>
        <label htmlFor={field}>API key</label>
        <input
          id={field}
          type="password"
          className="field"
          placeholder="baton_…"
          autoComplete="off"
          value={key}
          onChange={(event) => setKey(event.target.value)}
          // biome-ignore lint/a11y/noAutofocus: the page has this field alone.
          autoFocus
        />
        {failure !== null && (
          <p role="alert" className="text-failed wrap-anywhere">
            {failure}
          </p>
        )}
        <button type="submit" className="button main self-start" disabled={isBusy || key.trim() === ''}>
          Log in
        </button>
        <p className="text-dim">
          An operator of this service makes a key with{' '}
          <code className="font-mono text-sm">npm run keys -- create --name NAME</code>. The login lasts until the
          browser is closed, 12 hours at most.
        </p>
      </form>
    </main>
  );
}
