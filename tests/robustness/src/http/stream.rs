//! [`follow`]: a client that follows the changes, and goes on after each cut where it was.

use std::time::Duration;

use tokio::{
    io::AsyncReadExt,
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::client::{Ask, Client, chunks, head};
use crate::BoxError;

/// How long a stream may bring nothing new after the last change is known.
const BOUND: Duration = Duration::from_secs(60);

/// Returns the numbers of all changes in the order in which they came, up to the one that `last` names.
///
/// # Errors
///
/// When the last one does not come, or a server says that changes are no longer kept.
pub async fn follow(
    client: Client,
    last: watch::Receiver<Option<u64>>,
) -> Result<Vec<u64>, BoxError> {
    let mut seen: Vec<u64> = Vec::new();
    let mut known_since = None;
    loop {
        let newest = seen.last().copied().unwrap_or_default();
        if let Some(last) = *last.borrow() {
            let since = *known_since.get_or_insert_with(Instant::now);
            if newest >= last {
                return Ok(seen);
            }
            if since.elapsed() > BOUND {
                let text = format!("the stream is at {newest} a minute after {last} was written");
                return Err(text.into());
            }
        }
        let number = newest.to_string();
        let ask = Ask {
            line: match seen.is_empty() {
                true => "GET /v1/changes?after=0",
                false => "GET /v1/changes",
            },
            header: (!seen.is_empty()).then_some(("Last-Event-ID", &number)),
            body: String::new(),
        };
        let events = Events {
            last: last.clone(),
            bytes: Vec::new(),
        };
        // A connection that ends is followed by the next one.
        let _ = events.read(&client, &ask, &mut seen).await?;
        sleep(Duration::from_millis(5)).await;
    }
}

/// The events of one connection.
struct Events {
    last: watch::Receiver<Option<u64>>,
    bytes: Vec<u8>,
}

impl Events {
    /// Reads whole events until the connection ends, or the last one has come.
    async fn read(
        mut self,
        client: &Client,
        ask: &Ask<'_>,
        seen: &mut Vec<u64>,
    ) -> Result<std::io::Result<()>, BoxError> {
        let mut stream = match client.send(ask).await {
            Ok(stream) => stream,
            Err(error) => return Ok(Err(error)),
        };
        let before = seen.len();
        loop {
            let read = timeout(Duration::from_secs(1), stream.read_buf(&mut self.bytes)).await;
            match read {
                Ok(Ok(0)) => return Ok(Ok(())),
                Ok(Err(error)) => return Ok(Err(error)),
                // Nothing has changed for a while.
                Ok(Ok(_)) | Err(_) => {}
            }
            let Some((head, body)) = head(&self.bytes) else {
                continue;
            };
            if !head.starts_with("HTTP/1.1 200") {
                return Ok(Err(std::io::Error::other("the server cannot work now")));
            }
            let (body, _) = chunks(self.bytes.get(body..).unwrap_or_default());
            let text = String::from_utf8_lossy(&body);
            // The last part has not ended.
            let mut events: Vec<&str> = text.split("\n\n").collect();
            events.pop();
            let mut numbers = Vec::new();
            for event in events {
                match field(event, "event:") {
                    Some("change") => {
                        let id = field(event, "id:").ok_or("a change has no id")?;
                        numbers.push(id.parse()?);
                    }
                    Some("reset") => return Err("changes are no longer kept".into()),
                    _ => {}
                }
            }
            seen.truncate(before);
            seen.append(&mut numbers);
            let newest = seen.last().copied().unwrap_or_default();
            if self.last.borrow().is_some_and(|last| newest >= last) {
                return Ok(Ok(()));
            }
        }
    }
}

fn field<'a>(event: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = event.lines();
    Some(lines.find_map(|line| line.strip_prefix(name))?.trim())
}
