//! Reads quota and clock of a member of etcd over HTTP.

use std::time::Duration;

use jiff::{Timestamp, fmt::rfc2822};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// What a member reported.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Reported {
    /// `--quota-backend-bytes`, or its default.
    pub(crate) quota: Option<u64>,
    /// Its clock (whole seconds) when it answered.
    pub(crate) clock: Option<Timestamp>,
}

/// Asks a member. Does not ask a member that speaks TLS.
pub(crate) async fn ask(endpoint: &str, patience: Duration) -> Reported {
    let Some(address) = endpoint.strip_prefix("http://") else {
        return Reported::default();
    };
    let asked = timeout(patience, fetch(address)).await;
    asked
        .ok()
        .and_then(Result::ok)
        .map_or_else(Reported::default, |text| read(&text))
}

async fn fetch(address: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream.take(8 << 20).read_to_end(&mut bytes).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn read(text: &str) -> Reported {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
    let date = head.lines().find_map(|line| line.strip_prefix("Date: "));
    let clock = date.and_then(|date| rfc2822::parse(date.trim()).ok());
    let name = "etcd_server_quota_backend_bytes ";
    let quota = body.lines().find_map(|line| line.strip_prefix(name));
    let quota = quota.and_then(|number| number.trim().parse::<f64>().ok());
    Reported {
        // A whole number of bytes, far below what a float holds exactly.
        quota: quota.filter(|bytes| *bytes > 0.0).map(|bytes| bytes as u64),
        clock: clock.map(|clock| clock.timestamp()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_and_clock_are_read() {
        let text = "HTTP/1.0 200 OK\r\nDate: Sat, 21 Nov 2026 14:00:03 GMT\r\n\r\n# HELP x\n\
                    etcd_server_quota_backend_bytes 2.147483648e+09\n";
        let reported = read(text);
        assert_eq!(reported.quota, Some(2 << 30));
        assert_eq!(
            reported.clock,
            Some("2026-11-21T14:00:03Z".parse().unwrap())
        );
        assert_eq!(read("no answer at all"), Reported::default());
    }
}
