import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';

/** A session by the end of its id, as a link to its page. */
export const SessionLink = ({ id }: Readonly<{ id: string }>): ReactNode => (
  <Link
    to="/sessions/$sessionId"
    params={{ sessionId: id }}
    className="font-mono text-xs text-accent underline underline-offset-4"
    title={id}
  >
    ses_…{id.slice(-8)}
  </Link>
);
