//! Runs one scenario: stand-in servers, a client under test, and a script that decides what each request gets.

use std::{
    net::SocketAddr,
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde_json::{Value, json};
use tokio::{
    process::{Child, Command},
    time::sleep,
};

use super::{
    http::{Reply, Request, Server},
    long_number::{marked, written},
    rules::{FORM, Rule, WORKS},
    stand_in_store::{Ask, Broken, Endpoint, StandInStore},
};
use crate::exit::Failure;

/// How often a scenario looks at what has happened.
const LOOK: Duration = Duration::from_millis(20);

/// What a request gets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Treat {
    /// It is carried out and answered.
    Serve,
    /// As `Serve`, this much later.
    Late(Duration),
    /// It is carried out, and the answer is lost.
    Lose,
    /// It is lost before it is carried out.
    Drop,
    /// It is not carried out, and gets this status, with these seconds of `Retry-After`.
    Say(u16, Option<u64>),
}

/// What a scenario does.
pub(super) trait Script: Send {
    /// Adds the tasks.
    fn begin(&mut self, store: &mut StandInStore);

    /// Decides what a request gets.
    fn treat(&mut self, _store: &mut StandInStore, _ask: &Ask) -> Treat {
        Treat::Serve
    }

    /// Looks at what has happened, and returns whether the scenario is over.
    fn look(&mut self, store: &mut StandInStore) -> bool;

    /// Returns whether the second server is to run, and whether the first is.
    fn servers(&self) -> (bool, bool) {
        (true, false)
    }

    /// Returns whether the processes of the client are suspended (SIGSTOP).
    fn is_suspended(&self) -> bool {
        false
    }

    /// The rule that is broken when the scenario does not end in time, and what the client has not done.
    fn late(&self) -> (Rule, String);
}

/// A scenario of the check.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// How long the client has.
    pub(super) bound: Duration,
    pub(super) script: fn() -> Box<dyn Script>,
}

/// What a check is given.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) listen: SocketAddr,
    pub(super) kind: String,
    pub(super) command: Vec<String>,
}

type Stage = Arc<Mutex<(StandInStore, Box<dyn Script>)>>;

fn lock(stage: &Stage) -> MutexGuard<'_, (StandInStore, Box<dyn Script>)> {
    stage.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a scenario, and returns what the client has broken.
///
/// # Errors
///
/// When a server or the client does not start.
pub(super) async fn run(scenario: Scenario, setup: &Setup) -> Result<Vec<Broken>, Failure> {
    let folder = tempfile::tempdir()
        .map_err(|e| Failure::Store(format!("could not make a folder for the traces: {e}")))?;
    let token = uuid::Uuid::now_v7().simple().to_string();
    let mut store = StandInStore::new(&setup.kind, folder.path());
    let mut script = (scenario.script)();
    script.begin(&mut store);
    let stage: Stage = Arc::new(Mutex::new((store, script)));
    let mut first = Some(listen(setup.listen, 0, &stage, &token).await?);
    let url = |server: &Option<Server>| server.as_ref().map(|s| format!("http://{}", s.address));
    let mut second = None;
    if lock(&stage).1.servers().1 {
        let other = SocketAddr::new(setup.listen.ip(), 0);
        second = Some(listen(other, 1, &stage, &token).await?);
    }
    let urls = [url(&first), url(&second)];
    lock(&stage).0.servers = urls.iter().flatten().cloned().collect();
    let started = Instant::now();
    let mut client = start(
        setup,
        urls[0].as_deref().unwrap_or_default(),
        &token,
        folder.path(),
    )?;
    let (mut exited, mut is_suspended) = (None, false);
    loop {
        sleep(LOOK).await;
        let mut stage = lock(&stage);
        let (store, script) = &mut *stage;
        store.check_starts();
        if script.look(store) {
            break;
        }
        if !script.servers().0 {
            first = None;
        }
        if script.is_suspended() != is_suspended {
            is_suspended = !is_suspended;
            signal(
                &client,
                if is_suspended {
                    Signal::SIGSTOP
                } else {
                    Signal::SIGCONT
                },
            );
        }
        if exited.is_none() {
            exited = client.try_wait().ok().flatten();
        }
        if started.elapsed() > scenario.bound {
            let (rule, mut what) = script.late();
            if let Some(status) = exited {
                what += &format!(" (the command has ended: {status})");
            }
            store.breaks(rule, what);
            break;
        }
        if store.counts[0] == 0
            && let Some(status) = exited
        {
            store.breaks(
                WORKS,
                format!("the command has ended before it registered: {status}"),
            );
            break;
        }
    }
    signal(&client, Signal::SIGKILL);
    let _ = client.wait().await;
    drop((first, second));
    let stage = lock(&stage);
    Ok(stage.0.broken.clone())
}

/// Sends a signal to the processes of the client, which have a process group of their own.
fn signal(client: &Child, signal: Signal) {
    if let Some(pid) = client.id().and_then(|pid| i32::try_from(pid).ok()) {
        // An error means that they have ended.
        let _ = killpg(Pid::from_raw(pid), signal);
    }
}

async fn listen(
    at: SocketAddr,
    number: usize,
    stage: &Stage,
    token: &str,
) -> Result<Server, Failure> {
    let (stage, token) = (Arc::clone(stage), token.to_owned());
    let answer = move |request| respond(Arc::clone(&stage), token.clone(), request);
    let started = Server::start(at, number, answer).await;
    started.map_err(|e| {
        Failure::Usage(format!(
            "could not listen on {at}: {e}; give another address, or port 0"
        ))
    })
}

fn start(setup: &Setup, url: &str, token: &str, folder: &Path) -> Result<Child, Failure> {
    let Some((program, arguments)) = setup.command.split_first() else {
        return Err(Failure::Usage(
            "command: is missing; give it after --".to_owned(),
        ));
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("WINDLASS_URL", url)
        .env("WINDLASS_TOKEN", token)
        .env("WINDLASS_CHECK_DIR", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    command.spawn().map_err(|e| {
        Failure::Usage(format!(
            "command: could not start '{program}': {e}; check its name and path"
        ))
    })
}

/// Reads a request; a status and a text for one that is of no use.
fn read(stage: &Stage, token: &str, request: &Request) -> Result<Ask, (u16, String)> {
    let store = &mut lock(stage).0;
    let mut refuse = |status, what: String| {
        store.breaks(FORM, what.clone());
        (status, what)
    };
    let words: Vec<&str> = request.path.trim_start_matches('/').split('/').collect();
    let (endpoint, place) = match words[..] {
        ["v1", "workers"] => (Endpoint::Register, 0),
        ["v1", "workers", _, "exchange"] => (Endpoint::Exchange, 1),
        ["v1", "workers", _, "report"] => (Endpoint::Report, 2),
        ["v1", "workers", _, "leave"] => (Endpoint::Leave, 3),
        _ => {
            return Err(refuse(
                404,
                format!("{} is no path of the protocol", request.path),
            ));
        }
    };
    if request.method != "POST" {
        return Err(refuse(
            405,
            format!(
                "{} has the method {}; use POST",
                request.path, request.method
            ),
        ));
    }
    if request.token.as_deref() != Some(token) {
        let what = "a request has no header 'Authorization: Bearer' with WINDLASS_TOKEN".to_owned();
        return Err(refuse(401, what));
    }
    let body: Value = serde_json::from_slice(&marked(&request.body)).map_err(|e| {
        refuse(
            400,
            format!("the body of {} is not JSON: {e}", request.path),
        )
    })?;
    if let Err(what) = super::every_request::form(endpoint, &body) {
        return Err(refuse(400, what));
    }
    store.counts[place] += 1;
    Ok(Ask {
        endpoint,
        server: request.server,
        body,
        nth: store.counts[place],
        at: Instant::now(),
    })
}

/// Carries a request out as the script decides.
async fn respond(stage: Stage, token: String, request: Request) -> Reply {
    let ask = match read(&stage, &token, &request) {
        Ok(ask) => ask,
        Err((status, what)) => return problem(status, None, &what),
    };
    let treat = {
        let (store, script) = &mut *lock(&stage);
        store.check(&ask);
        script.treat(store, &ask)
    };
    let mut until = Instant::now();
    match treat {
        Treat::Drop => {
            lock(&stage).0.failed(&ask);
            return Reply::Cut;
        }
        Treat::Say(status, retry_after) => {
            let store = &mut lock(&stage).0;
            match status {
                // What was too large may be replaced.
                413 => store.failed = ask.endpoint == Endpoint::Exchange,
                _ => store.failed(&ask),
            }
            return problem(status, retry_after, "the script of the check says so");
        }
        Treat::Late(time) => sleep(time).await,
        Treat::Serve | Treat::Lose if ask.endpoint == Endpoint::Exchange => {
            until += Duration::from_millis(ask.number("wait_ms"));
        }
        Treat::Serve | Treat::Lose => {}
    }
    while Instant::now() < until && !lock(&stage).0.has_news() {
        sleep(LOOK).await;
    }
    let store = &mut lock(&stage).0;
    let (status, body, carried) = store.serve(&ask);
    let got = treat != Treat::Lose;
    store.sent(&ask, &carried, got && status == 200);
    match (got, status) {
        (false, _) => Reply::Cut,
        (true, 200) => Reply::Send(200, None, written(&body)),
        (true, status) => problem(status, None, "the lease is over; register again"),
    }
}

fn problem(status: u16, retry_after: Option<u64>, detail: &str) -> Reply {
    let code = match status {
        400 => "invalid",
        401 => "unauthorized",
        403 => "forbidden",
        404 => "no_route",
        409 => "stale",
        410 => "over",
        413 => "too_large",
        429 => "too_many",
        _ => "unavailable",
    };
    let body = json!({"title": code, "status": status, "code": code, "detail": detail});
    Reply::Send(status, retry_after, body.to_string())
}
