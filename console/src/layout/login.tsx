import { type FormEvent, type ReactNode, useId, useState } from 'react';
import { client, isLoggedOut, logIn, queries } from '../api.ts';
import { failureWords } from '../format.ts';
import { readLoginPlace } from '../login-place.ts';

/** Logs in with an API key, and sees whether the service knows the login again. */
async function enter(key: string): Promise<void> {
  await logIn(key);
  try {
    await client.whoami();
  } catch (error) {
    if (isLoggedOut(error)) throw new Error(NOT_KEPT, { cause: error });
    throw error;
  }
  await queries.resetQueries();
}

const NOT_KEPT =
  'The key is right, but the login did not come back from the browser: allow cookies of this page, and ask whoever runs the service whether a proxy in between drops them.';

/** Asks for an API key, or leads to the login of the program that has mounted the service. The page forgets the key. */
export function Login({ reason }: Readonly<{ reason: string | null }>): ReactNode {
  const { isMounted, loginUrl } = readLoginPlace();
  return (
    <main className="flex h-full items-center justify-center p-4">
      <div className="flex w-96 max-w-full flex-col gap-3">
        <h1 className="text-lg">Baton</h1>
        {loginUrl !== null && (
          <>
            <a href={loginUrl} className="button main self-start">
              Log in
            </a>
            <p className="pt-2 text-dim">Or with an API key:</p>
          </>
        )}
        <KeyForm reason={reason} isOnlyWay={loginUrl === null} />
        <KeyAdvice isMounted={isMounted} />
      </div>
    </main>
  );
}

function KeyForm({ reason, isOnlyWay }: Readonly<{ reason: string | null; isOnlyWay: boolean }>): ReactNode {
  const [key, setKey] = useState('');
  const [failure, setFailure] = useState<string | null>(reason);
  const [isBusy, setBusy] = useState(false);
  const field = useId();
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    try {
      await enter(key.trim());
      setKey('');
    } catch (error) {
      setFailure(failureWords(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form onSubmit={(event) => void submit(event)} className="flex flex-col gap-3">
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
        autoFocus={isOnlyWay}
      />
      {failure !== null && (
        <p role="alert" className="text-failed wrap-anywhere">
          {failure}
        </p>
      )}
      <button
        type="submit"
        className={`button ${isOnlyWay ? 'main ' : ''}self-start`}
        disabled={isBusy || key.trim() === ''}
      >
        {isOnlyWay ? 'Log in' : 'Log in with the key'}
      </button>
    </form>
  );
}

function KeyAdvice({ isMounted }: Readonly<{ isMounted: boolean }>): ReactNode {
  const made = isMounted ? (
    <>
      This console is part of a program. Its operator creates a key in its code with{' '}
      <Code>
        baton.keys.create({'{'} name: 'NAME' {'}'})
      </Code>
      , or on the page “API keys” of this console.
    </>
  ) : (
    <>
      An operator of this service creates a key with <Code>npm run keys -- create --name NAME</Code>.
    </>
  );
  return (
    <p className="text-dim">{made} The login ends when the browser is closed, and after 12 hours at the latest.</p>
  );
}

const Code = ({ children }: Readonly<{ children: ReactNode }>): ReactNode => (
  <code className="font-mono text-sm">{children}</code>
);
