//! The side of the command: asks the worker that runs it.

use std::{
    env,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Serialize;
use thiserror::Error;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    time::sleep,
};
use windlass::{Invalid, Json};

use super::{
    KEY, SOCKET,
    form::{self, Answer},
};

/// How long a command whose worker has ended waits to be ended itself. It must not continue as if it had an answer.
const ORPHANED: Duration = Duration::from_secs(60);

/// A signal to wait for.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct WaitSignal {
    /// The name of the signal.
    pub name: String,
    /// What the person is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The JSON Schema of the payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// When the wait ends: a time in RFC 3339, or `in 3d`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The reply to the sender, when the command has ended with success; `null` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<Json>,
}

impl WaitSignal {
    /// Returns a wait for the signal with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: None,
            schema: None,
            until: None,
            reply: None,
        }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    key: &'a str,
    wait_signal: &'a WaitSignal,
}

/// How a wait for a signal has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waited {
    /// With the signal. This is its payload.
    Signal(Json),
    /// Without the signal, at its time.
    Expired,
}

/// Why a worker was not asked, or did not answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AskError {
    /// No worker has started this process.
    #[error(
        "{SOCKET} is not set: no worker has started this process, or the worker could not open its socket"
    )]
    Outside,
    /// A value of the request is wrong.
    #[error(transparent)]
    Invalid(Invalid),
    /// The worker has refused the request.
    #[error("the worker refuses the request: {0}")]
    Refused(String),
    /// The socket of the worker cannot be used.
    #[error("could not use the socket of the worker, '{path}': {source}")]
    Socket {
        /// The path of the socket.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The worker has ended, and has not ended this process.
    #[error("the worker has ended without an answer")]
    Ended,
}

/// Waits for a signal to the task of this process. The worker either answers at once, or ends this process with its whole
/// command, which starts again when the signal has arrived.
///
/// # Errors
///
/// [`AskError`].
pub async fn wait_signal(wait: &WaitSignal) -> Result<Waited, AskError> {
    let (Some(path), Some(key)) = (variable(SOCKET), variable(KEY)) else {
        return Err(AskError::Outside);
    };
    let key = key.to_string_lossy();
    let line = Line {
        key: &key,
        wait_signal: wait,
    };
    let json = serde_json::to_string(&line)
        .map_err(|error| Invalid::new("request", error.to_string()))
        .map_err(AskError::Invalid)?;
    match ask(PathBuf::from(path), &json).await? {
        Answer::Payload(payload) => Ok(Waited::Signal(payload)),
        Answer::Expired => Ok(Waited::Expired),
        Answer::Refused(Some(field), reason) => Err(AskError::Invalid(Invalid::new(field, reason))),
        Answer::Refused(None, reason) => Err(AskError::Refused(reason)),
    }
}

fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Sends a request, and waits for the answer.
async fn ask(path: PathBuf, json: &str) -> Result<Answer, AskError> {
    let answer = match exchange(&path, json).await {
        Ok(answer) => answer,
        Err(error) if has_ended(&error) => String::new(),
        Err(source) => return Err(AskError::Socket { path, source }),
    };
    match Answer::read(&answer) {
        Some(answer) => Ok(answer),
        None => {
            sleep(ORPHANED).await;
            Err(AskError::Ended)
        }
    }
}

/// Returns whether the error is that of a process that has ended.
fn has_ended(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
    )
}

async fn exchange(path: &Path, json: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(path).await?;
    // The worker closes the connection after a request that it refuses unread.
    let sent = stream.write_all(form::line(json).as_bytes()).await;
    let mut answer = String::new();
    let read = BufReader::new(&mut stream).read_line(&mut answer).await;
    match (read, sent) {
        (Ok(1..), _) => Ok(answer),
        (Ok(_), sent) => sent.map(|()| answer),
        (Err(error), _) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    /// A script must not take the end of its worker for an answer, or for a refusal.
    #[tokio::test(start_paused = true)]
    async fn an_ended_worker_is_no_answer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let closes = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut line = String::new();
            BufReader::new(&mut stream)
                .read_line(&mut line)
                .await
                .unwrap();
            line
        });
        for _ in 0..2 {
            let start = tokio::time::Instant::now();
            let error = ask(path.clone(), "{}").await.unwrap_err();
            assert!(matches!(error, AskError::Ended), "{error}");
            assert!(start.elapsed() >= ORPHANED);
        }
        assert_eq!(closes.await.unwrap(), "{}\n");
        let start = tokio::time::Instant::now();
        let error = ask(dir.path().join("none"), "{}").await.unwrap_err();
        assert!(matches!(error, AskError::Socket { .. }), "{error}");
        assert!(start.elapsed() < ORPHANED);
    }
}
