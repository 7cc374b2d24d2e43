import { type ErrorComponentProps, Link } from '@tanstack/react-router';
import type { ReactElement } from 'react';
import { failureWords } from '../format.ts';
import { Empty } from '../ui/empty.tsx';

/** A page that has broken: the service is not to blame, and the other pages work. */
export function PageFailure({ error }: ErrorComponentProps): ReactElement {
  const message = failureWords(error);
  const isOldPage = /dynamically imported module|Importing a module/i.test(message);
  return (
    <Empty title={isOldPage ? 'The service has a newer console than this page' : 'This page has broken'}>
      <p className="wrap-anywhere">{isOldPage ? 'Load the page again to go on with it.' : message}</p>
      <button type="button" className="button" onClick={() => location.reload()}>
        Load the page again
      </button>
    </Empty>
  );
}

export function NotFound(): ReactElement {
  return (
    <Empty title="There is no such page">
      <Link to="/sessions" className="text-accent underline">
        To the sessions
      </Link>
    </Empty>
  );
}
