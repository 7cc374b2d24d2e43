import type { ReactNode } from 'react';
import { Empty } from '../ui/empty.tsx';
import { useCaller } from './caller.ts';

/** Whose data a page shows: of the key's tenant, or states and causes of all; null: the key may see neither. */
export type Reach = 'tenant' | 'all' | null;

/** @param all whether the address asks for all tenants */
export function useReach(all: true | undefined): Readonly<{ reach: Reach; mayChoose: boolean }> {
  const scopes = useCaller()?.scopes ?? [];
  const [mayRead, mayOperate] = [scopes.includes('read'), scopes.includes('operator')];
  if (!mayOperate) return { reach: mayRead ? 'tenant' : null, mayChoose: false };
  return { reach: all === true || !mayRead ? 'all' : 'tenant', mayChoose: mayRead };
}

/** A switch to all tenants, for keys that may see both. */
export function ReachSwitch({
  all,
  change,
}: Readonly<{ all: true | undefined; change: (all: true | undefined) => void }>): ReactNode {
  const { mayChoose, reach } = useReach(all);
  if (!mayChoose) return reach === 'all' ? <span className="text-dim">all tenants</span> : null;
  return (
    <button
      type="button"
      aria-pressed={all === true}
      className="button small aria-pressed:border-accent aria-pressed:bg-chosen"
      title="States, numbers and causes of all tenants, without conversations"
      onClick={() => change(all === true ? undefined : true)}
    >
      all tenants
    </button>
  );
}

/** Says which scope a page needs that the key lacks. */
export function LacksScope({ scopes }: Readonly<{ scopes: string }>): ReactNode {
  return (
    <Empty title={`Your key lacks the scope ${scopes}`}>
      <p>
        Log in with another key. An operator of this service makes one with{' '}
        <code className="font-mono text-sm">npm run keys -- create --name NAME --scopes {scopes.split(' ')[0]}</code>.
      </p>
    </Empty>
  );
}
