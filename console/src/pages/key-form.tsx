import type { ApiKey } from '@baton-run/server/client';
import { type ReactNode, useState } from 'react';
import { client, logIn, queries } from '../api.ts';
import { useCaller } from '../layout/caller.ts';
import { CopyButton } from '../ui/copy.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { FormDialog, FormField } from '../ui/form-dialog.tsx';

type Scope = ApiKey['scopes'][number];

const SCOPES: Readonly<Record<Scope, string>> = {
  read: 'reads sessions, runs and usage',
  write: 'sends, answers, cancels, changes',
  admin: 'makes and revokes keys, reads the audit log and what models were shown',
  operator: 'sees workers, queues, metrics, and the states of all tenants',
};
const ALL = Object.keys(SCOPES) as Scope[];

const DAY_S = 86_400;
const LIFETIMES = [
  ['until it is revoked', undefined],
  ['for 30 days', 30 * DAY_S],
  ['for 90 days', 90 * DAY_S],
  ['for a year', 365 * DAY_S],
] as const;

type FormProps = Readonly<{
  /** The service has had no key before: this one closes it. */
  isFirst: boolean;
  close: () => void;
  /** Is given the secret, which nothing else has. */
  made: (secret: string) => void;
}>;

/** The form for a new key, which offers the scopes of the key in use. The first key of a service logs its maker in. */
export function KeyForm({ isFirst, close, made }: FormProps): ReactNode {
  const own = useCaller()?.scopes ?? [];
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<readonly Scope[]>(isFirst ? ALL : ['read', 'write']);
  const [lifetime, setLifetime] = useState(0);
  const create = async (): Promise<void> => {
    const expiresInSeconds = LIFETIMES[lifetime]?.[1];
    const given = {
      name: name.trim(),
      scopes: [...scopes],
      ...(expiresInSeconds !== undefined && { expiresInSeconds }),
    };
    const { key } = await client.keys.create(given);
    made(key);
    if (isFirst) await logIn(key);
    await queries.invalidateQueries();
  };
  return (
    <FormDialog title="New API key" act="Create" fields={['name', 'scopes']} submit={create} close={close}>
      {(problems) => (
        <>
          {isFirst && (
            <p className="border-l-2 border-waiting pl-2">
              From this first key on every request needs a key, also those of programs that send none today. This
              console is logged in with it.
            </p>
          )}
          <FormField label="Name" problem={problems('name')} hint="Holder of the key: a service, or a person">
            {(control) => (
              <input {...control} className="field" value={name} onChange={(event) => setName(event.target.value)} />
            )}
          </FormField>
          <fieldset className="flex flex-col gap-1">
            <legend className="mb-1">Scopes</legend>
            {ALL.map((scope) => (
              <label key={scope} className="flex items-baseline gap-1.5">
                <input
                  type="checkbox"
                  checked={scopes.includes(scope)}
                  disabled={!own.includes(scope)}
                  title={own.includes(scope) ? undefined : `Your key lacks the scope ${scope}`}
                  onChange={({ target }) =>
                    setScopes(ALL.filter((each) => (each === scope ? target.checked : scopes.includes(each))))
                  }
                />
                <span>
                  {scope} <span className="text-sm text-dim">{SCOPES[scope]}</span>
                </span>
              </label>
            ))}
            {problems('scopes') !== undefined && (
              <p role="alert" className="text-failed wrap-anywhere">
                {problems('scopes')}
              </p>
            )}
          </fieldset>
          <FormField label="Lasts" problem={undefined}>
            {(control) => (
              <select
                {...control}
                className="field"
                value={lifetime}
                onChange={(event) => setLifetime(Number(event.target.value))}
              >
                {LIFETIMES.map(([words], index) => (
                  <option key={words} value={index}>
                    {words}
                  </option>
                ))}
              </select>
            )}
          </FormField>
        </>
      )}
    </FormDialog>
  );
}

/** The secret of a new key, which is shown this once. */
export const MadeKey = ({ secret, close }: Readonly<{ secret: string; close: () => void }>): ReactNode => (
  <Dialog isOpen close={close} title="The new API key" width="max-w-xl" isKept>
    <form
      className="flex flex-col gap-3"
      onSubmit={(event) => {
        event.preventDefault();
        close();
      }}
    >
      <p>Copy the key now. The service keeps only its hash, so nobody sees it again.</p>
      <div className="flex items-center gap-1">
        <input
          className="field min-w-0 flex-1 font-mono text-sm"
          aria-label="The key"
          readOnly
          value={secret}
          onFocus={(event) => event.target.select()}
        />
        <CopyButton text={secret} label="Copy the key" />
      </div>
      <button type="submit" className="button main self-end">
        I have copied it <kbd className="kbd">Ctrl ↵</kbd>
      </button>
    </form>
  </Dialog>
);
