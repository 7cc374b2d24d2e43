import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useMay } from '../layout/caller.ts';

const TABS = [
  { to: '/agents', words: 'Agents', scope: 'read' },
  { to: '/schedules', words: 'Schedules', scope: 'read' },
  { to: '/webhooks', words: 'Webhooks', scope: 'read' },
  { to: '/keys', words: 'Keys', scope: 'admin' },
  { to: '/audit', words: 'Audit', scope: 'admin' },
] as const;

/** Links between the pages of the configuration and of the audit log. */
export function SetupTabs(): ReactNode {
  const may = { read: useMay('read'), admin: useMay('admin') };
  return (
    <nav aria-label="Configuration" className="flex flex-wrap gap-1">
      {TABS.map(({ to, words, scope }) => (
        <Link
          key={to}
          to={to}
          className={`rounded px-2 hover:text-ink ${may[scope] ? 'text-dim' : 'text-dim opacity-60'}`}
          activeProps={{ className: 'bg-chosen text-ink!' }}
        >
          {words}
        </Link>
      ))}
    </nav>
  );
}
