//! [`Room`]: the memory that large answers have, so that readers that do not read take no more of it.

use std::time::Duration;

use axum::{
    body::HttpBody,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use tokio::time::timeout;

use crate::{
    keeping::Keeping,
    places::{Full, Place, Places},
    problem::Problem,
};

/// How long a request waits for room.
const WAIT: Duration = Duration::from_secs(10);

/// The room of an answer, which it keeps until its last byte.
#[derive(Debug)]
pub(crate) struct Room(Place);

/// Marks an answer that has its room.
#[derive(Debug, Clone, Copy)]
struct HasRoom;

/// Returns the parts of so many bytes: at least one, and at most those that a caller has.
fn parts(of: &Places, bytes: usize) -> u32 {
    let parts = bytes.div_ceil(Room::PART).clamp(1, of.each().max(1));
    u32::try_from(parts).unwrap_or(u32::MAX)
}

/// Returns the bytes of an answer that was made; 0 for one that is made while it is read.
fn bytes_of(response: &Response) -> usize {
    let bytes = response.body().size_hint().exact().unwrap_or(0);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl Room {
    /// The bytes of a part. Answers that are not larger take none.
    pub(crate) const PART: usize = 64 << 10;

    /// Waits for room for an answer that is not made yet.
    pub(super) async fn take(of: &Places, caller: &str, bytes: usize) -> Result<Self, Problem> {
        let place = timeout(WAIT, of.take_many(caller, parts(of, bytes))).await;
        let place = place.ok().flatten();
        place.map(Self).ok_or_else(|| full(Full::Caller(0)))
    }

    /// Lets an answer keep as much of the room as it needs.
    pub(crate) fn keep(mut self, response: Response) -> Response {
        let bytes = bytes_of(&response);
        let mut response = match bytes > Self::PART {
            true => {
                self.0.keep(bytes.div_ceil(Self::PART));
                response.map(|body| Keeping::body(body, self))
            }
            false => response,
        };
        response.extensions_mut().insert(HasRoom);
        response
    }

    /// Gives an answer that was made its room. Without room for it, the answer is that the request has to be sent again: only
    /// for a request that has changed nothing.
    pub(crate) fn for_answer(of: &Places, caller: &str, response: Response) -> Response {
        let bytes = bytes_of(&response);
        if bytes <= Self::PART || response.extensions().get::<HasRoom>().is_some() {
            return response;
        }
        match of.try_take_many(caller, parts(of, bytes)) {
            Ok(place) => Self(place).keep(response),
            Err(why) => full(why).into_response(),
        }
    }
}

/// Returns the refusal of a request whose answer has no room.
fn full(why: Full) -> Problem {
    let (status, code, whose) = match why {
        Full::All => (
            StatusCode::SERVICE_UNAVAILABLE,
            "busy",
            "the clients of this server",
        ),
        Full::Caller(_) => (
            StatusCode::TOO_MANY_REQUESTS,
            "too_many",
            "the clients of this caller",
        ),
    };
    let detail = format!(
        "{whose} have too many large answers that they have not read yet; read them, ask for smaller pages, and try again"
    );
    Problem::new(status, code, detail).retry_after(1)
}
