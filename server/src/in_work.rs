//! [`Held`]: what a request in work holds until the last byte of its answer.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    body::Body,
    extract::{MatchedPath, Request},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts},
};
use tokio::{sync::OwnedSemaphorePermit, time::timeout};

use crate::{
    app::App,
    auth::{Caller, Role},
    params::whole,
    places::{Full, Place, Places},
    problem::Problem,
};

/// How long the whole body of a request of a worker may take, and how long such a request waits for a place.
const WORKER: Duration = Duration::from_secs(10);
/// After how many seconds a wait that ended early is asked for again.
const AGAIN: HeaderValue = HeaderValue::from_static("1");

/// What a request in work holds: a place. One that begins to wait changes its place for one of those that wait.
#[derive(Debug)]
pub(crate) struct Held {
    place: Mutex<Option<Permit>>,
    /// Whether a wait ended early because no place was free for it.
    asks_again: AtomicBool,
    _counted: Option<Counted>,
}

/// Counts a request in the metric of those in work.
#[derive(Debug)]
struct Counted;

impl Counted {
    fn new() -> Self {
        windlass::telemetry::in_work(1.0);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        windlass::telemetry::in_work(-1.0);
    }
}

#[derive(Debug)]
enum Permit {
    Place(#[expect(dead_code, reason = "dropping it frees the place")] Place),
    Exchange(#[expect(dead_code, reason = "dropping it frees the place")] OwnedSemaphorePermit),
}

/// Marks an exchange for which no place is left: it is answered at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crowded;

/// Which places a request takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// An exchange of a worker, which waits for tasks: a thousand workers with one token wait at once.
    Exchange,
    /// Another request of a worker: what callers wait for is in its reports, so that waits must not hold it up.
    Worker,
    Other,
}

/// Returns which places a request takes. One of a caller that is no worker is refused, and counts as any other request.
fn sort(app: &App, head: &Parts, caller: &Caller) -> Sort {
    let path = head.extensions.get::<MatchedPath>();
    let path = path.map(MatchedPath::as_str).unwrap_or_default();
    let path = path.strip_prefix(&*app.settings.base_path).unwrap_or(path);
    let of_worker = path.strip_prefix("/v1/workers");
    match of_worker.filter(|_| head.method == Method::POST && caller.role.allows(Role::Work)) {
        Some("/{name}/exchange") => Sort::Exchange,
        Some(_) => Sort::Worker,
        None => Sort::Other,
    }
}

impl Held {
    fn new(place: Option<Permit>) -> Arc<Self> {
        Arc::new(Self {
            _counted: place.as_ref().map(|_| Counted::new()),
            place: Mutex::new(place),
            asks_again: AtomicBool::new(false),
        })
    }

    /// Returns whether a request is one of a worker, such as an exchange or a report.
    pub(crate) fn is_of_worker(app: &App, head: &Parts, caller: &Caller) -> bool {
        sort(app, head, caller) != Sort::Other
    }

    /// Takes a place for a request. An exchange has none before its body was read.
    pub(crate) async fn admit(
        app: &App,
        head: &Parts,
        caller: &Caller,
    ) -> Result<Arc<Self>, Problem> {
        let key = caller.key();
        let place = match sort(app, head, caller) {
            Sort::Exchange => return Ok(Self::new(None)),
            Sort::Worker => {
                app.count(&format!("{key}, its workers"))?;
                let place = timeout(WORKER, app.reports.take(&key)).await;
                place.ok().flatten().ok_or_else(|| full(Full::All))?
            }
            Sort::Other => {
                app.count(&key)?;
                app.in_flight.try_take(&key).map_err(full)?
            }
        };
        Ok(Self::new(Some(Permit::Place(place))))
    }

    /// Changes the place of the request for one of those that wait, so that waits and streams leave the others free.
    pub(crate) fn wait(&self, waits: &Places, caller: &str) -> Result<(), Full> {
        let place = waits.try_take(caller)?;
        self.set(Permit::Place(place));
        Ok(())
    }

    /// Lets the answer say that the wait ended early, and when to ask again.
    pub(crate) fn ask_again(&self) {
        self.asks_again.store(true, Ordering::Relaxed);
    }

    /// Adds when to ask again, to the answer of a wait that ended early.
    pub(crate) fn mark(&self, headers: &mut HeaderMap) {
        if self.asks_again.load(Ordering::Relaxed) {
            headers.insert(header::RETRY_AFTER, AGAIN);
        }
    }

    fn set(&self, permit: Permit) {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some(permit);
    }

    /// Reads the body of a request of a worker, and takes a place for the wait of an exchange. Without one it is marked as
    /// [`Crowded`]: it renews the lease, and does not wait. So a caller that sends slowly, or waits often, keeps no other
    /// worker from its lease.
    pub(crate) async fn open(
        &self,
        (app, caller): (&Arc<App>, &Caller),
        mut request: Request,
    ) -> Result<Request, Problem> {
        let (head, body) = request.into_parts();
        let sort = sort(app, &head, caller);
        request = Request::from_parts(head, body);
        if sort == Sort::Other {
            return Ok(request);
        }
        let body = std::mem::take(request.body_mut());
        let read = timeout(WORKER, whole(Request::new(body), app)).await;
        let read = read.map_err(|_| {
            let detail = "the body of a request of a worker has to come within 10 s; send it again";
            Problem::new(StatusCode::REQUEST_TIMEOUT, "slow", detail)
        });
        *request.body_mut() = Body::from(read??);
        if sort == Sort::Exchange {
            match app.exchanges.clone().try_acquire_owned() {
                Ok(place) => self.set(Permit::Exchange(place)),
                Err(_) => drop(request.extensions_mut().insert(Crowded)),
            }
        }
        Ok(request)
    }
}

/// Returns the refusal of a request without a place.
pub(crate) fn full(full: Full) -> Problem {
    let (status, code, detail) = match full {
        Full::All => (
            StatusCode::SERVICE_UNAVAILABLE,
            "busy",
            "the server has too many requests in work; try again".to_owned(),
        ),
        Full::Caller(most) => (
            StatusCode::TOO_MANY_REQUESTS,
            "too_many",
            format!("{most} requests of this caller are in work; end some, and try again"),
        ),
    };
    Problem::new(status, code, detail).retry_after(1)
}
