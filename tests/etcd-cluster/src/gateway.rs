//! Requests to a member through its JSON gateway, without a client of etcd.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{BoxError, base64};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The gateway of one member.
#[derive(Debug, Clone, Copy)]
pub struct Gateway(pub SocketAddr);

/// The status that a member reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// The id of the member.
    pub id: u64,
    /// The id of the leader, as far as the member knows; 0 for none.
    pub leader: u64,
    /// The revision of its store.
    pub revision: i64,
}

fn number(value: &Value) -> u64 {
    // 64-bit numbers are text in protobuf's JSON, and one that is 0 is left out.
    value.as_str().and_then(|n| n.parse().ok()).unwrap_or(0)
}

impl Gateway {
    fn post(self, path: &str, body: &Value) -> Result<Value, BoxError> {
        let mut stream = TcpStream::connect_timeout(&self.0, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let body = body.to_string();
        // HTTP 1.0: the answer ends with the connection.
        write!(
            stream,
            "POST {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
        if !head
            .lines()
            .next()
            .is_some_and(|line| line.contains(" 200 "))
        {
            return Err(format!("{path}: {body}").into());
        }
        Ok(serde_json::from_str(body)?)
    }

    /// Returns the status of the member.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub fn status(self) -> Result<Status, BoxError> {
        let answer = self.post("/v3/maintenance/status", &json!({}))?;
        let header = &answer["header"];
        Ok(Status {
            id: number(&header["member_id"]),
            leader: number(&answer["leader"]),
            revision: i64::try_from(number(&header["revision"]))?,
        })
    }

    /// Reads from a quorum, and returns the revision.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn read(self) -> Result<i64, BoxError> {
        let answer = self.post("/v3/kv/range", &json!({ "key": "AA==" }))?;
        Ok(i64::try_from(number(&answer["header"]["revision"]))?)
    }

    /// Reads the value of a key; `None` when there is no such key.
    ///
    /// # Errors
    ///
    /// When the member does not answer.
    pub fn get(self, key: &str) -> Result<Option<Vec<u8>>, BoxError> {
        let body = json!({ "key": base64::encode(key.as_bytes()) });
        let answer = self.post("/v3/kv/range", &body)?;
        match answer["kvs"][0]["value"].as_str() {
            Some(value) => Ok(Some(base64::decode(value)?)),
            None => Ok(None),
        }
    }

    /// Writes a key.
    ///
    /// # Errors
    ///
    /// When the member does not answer.
    pub fn put(self, key: &str, value: &[u8]) -> Result<(), BoxError> {
        let (key, value) = (base64::encode(key.as_bytes()), base64::encode(value));
        let body = json!({ "key": key, "value": value });
        self.post("/v3/kv/put", &body).map(|_| ())
    }

    /// Compacts the history before a revision.
    ///
    /// # Errors
    ///
    /// When it does not answer, or refuses (the history is compacted already).
    pub fn compact(self, revision: i64) -> Result<(), BoxError> {
        let body = json!({ "revision": revision.to_string() });
        self.post("/v3/kv/compaction", &body).map(|_| ())
    }

    /// Rewrites the database of the member without its free pages.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub fn defragment(self) -> Result<(), BoxError> {
        self.post("/v3/maintenance/defragment", &json!({}))
            .map(|_| ())
    }

    /// Asks the member, which has to be the leader, to let another one lead.
    ///
    /// # Errors
    ///
    /// When it does not answer, or refuses.
    pub fn hand_over(self, to: u64) -> Result<(), BoxError> {
        let body = json!({ "targetID": to.to_string() });
        let path = "/v3/maintenance/transfer-leadership";
        self.post(path, &body).map(|_| ())
    }
}
