//! A connection to the socket.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Semaphore, oneshot},
    time::{sleep, timeout},
};
use tracing::debug;
use windlass::Invalid;

use super::{
    Asked, Runs,
    form::{self, Answer, read_key, read_request},
};

/// The longest request, in bytes.
const LONGEST: u64 = 1 << 20;
/// How many connections are read at once. Those that wait for an answer do not count.
const READ_AT_ONCE: usize = 64;
/// How long a connection may take to send a request, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait after a connection could not be accepted: the process has no file descriptor left, say.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// Accepts connections, until it is aborted.
pub(super) async fn accept(listener: UnixListener, runs: Arc<Runs>) {
    let reading = Arc::new(Semaphore::new(READ_AT_ONCE));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(serve(stream, runs.clone(), reading.clone()));
            }
            Err(error) => {
                debug!(%error, "a connection was not accepted");
                sleep(AFTER_ERROR).await;
            }
        }
    }
}

async fn serve(stream: UnixStream, runs: Arc<Runs>, reading: Arc<Semaphore>) {
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::new(from);
    loop {
        let line = {
            let Ok(_permit) = reading.acquire().await else {
                return;
            };
            match timeout(PATIENCE, line(&mut from)).await {
                Ok(Ok(Some(line))) => line,
                Ok(Err(error)) => {
                    let _ = write(&mut to, &error.into()).await;
                    return;
                }
                // The end, and a process that sends nothing.
                Ok(Ok(None)) | Err(_) => return,
            }
        };
        let (answer, goes_on) = match answer(&line, &runs).await {
            Ok(answer) => (answer, true),
            Err(refused) => (refused, false),
        };
        if !write(&mut to, &answer).await || !goes_on {
            return;
        }
    }
}

/// Reads a line. `None` at the end.
async fn line(from: &mut BufReader<OwnedReadHalf>) -> Result<Option<String>, Invalid> {
    let mut line = Vec::new();
    let mut limited = from.take(LONGEST);
    match limited.read_until(b'\n', &mut line).await {
        Ok(1..) if line.ends_with(b"\n") => {
            let text = String::from_utf8(line);
            text.map(Some)
                .map_err(|_| Invalid::new("request", "is not UTF-8"))
        }
        Ok(_) if line.len() as u64 >= LONGEST => {
            let reason = format!("has more than {LONGEST} bytes, which is too much");
            Err(Invalid::new("request", reason))
        }
        _ => Ok(None),
    }
}

/// Returns the answer to a request; as an error, the one after which the connection ends.
async fn answer(line: &str, runs: &Runs) -> Result<Answer, Answer> {
    let (key, fields) = read_key(line)?;
    // Nothing else of the request is read before.
    let Some(run) = runs.get(&key) else {
        let reason = "the key is that of no run: the run of the command has ended";
        return Err(Answer::Refused(None, reason.to_owned()));
    };
    let request = match read_request(fields) {
        Ok(request) => request,
        Err(error) => return Ok(error.into()),
    };
    let (answer, answered) = oneshot::channel();
    let sent = run.send(Asked { request, answer }).await.is_ok();
    drop(run);
    let over = || Answer::Refused(None, "the run of the command has ended".to_owned());
    match sent {
        true => answered.await.map_err(|_| over()),
        false => Err(over()),
    }
}

/// Writes an answer. Returns whether it was taken.
async fn write(to: &mut OwnedWriteHalf, answer: &Answer) -> bool {
    let Ok(answer) = serde_json::to_string(answer) else {
        return false;
    };
    let sent = timeout(PATIENCE, to.write_all(form::line(&answer).as_bytes())).await;
    matches!(sent, Ok(Ok(())))
}
