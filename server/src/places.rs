//! [`Places`]: how many requests of one sort are in work at once, of all callers and of each.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

/// How many callers are kept before those without a request are forgotten.
const KEPT: usize = 1000;

/// The places of one sort of requests. A caller has at most a part of them, so that it does not hold up others.
pub(crate) struct Places {
    all: Arc<Semaphore>,
    /// The most places of one caller.
    each: usize,
    callers: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// The place of a request.
#[derive(Debug)]
pub(crate) struct Place {
    permits: (OwnedSemaphorePermit, OwnedSemaphorePermit),
}

impl Place {
    /// Frees all but so many of several places.
    pub(crate) fn keep(&mut self, many: usize) {
        for permit in [&mut self.permits.0, &mut self.permits.1] {
            let more = permit.num_permits().saturating_sub(many);
            drop(permit.split(more));
        }
    }
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// Every place is taken.
    All,
    /// The caller has its part, which is so many.
    Caller(usize),
}

impl Places {
    /// Makes so many places, of which a caller may have a quarter.
    pub(crate) fn new(most: usize) -> Self {
        Self::with_part(most, (most / 4).max(2))
    }

    /// Makes so many places, of which a caller may have so many.
    pub(crate) fn with_part(most: usize, each: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            each: each.min(Semaphore::MAX_PERMITS),
            callers: Mutex::default(),
        }
    }

    fn of(&self, caller: &str) -> Arc<Semaphore> {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if callers.len() >= KEPT {
            callers.retain(|_, part| Arc::strong_count(part) > 1);
        }
        let part = callers.entry(caller.to_owned());
        let part = part.or_insert_with(|| Arc::new(Semaphore::new(self.each)));
        part.clone()
    }

    /// Returns the most places of one caller.
    pub(crate) fn each(&self) -> usize {
        self.each
    }

    /// Waits for several places at once, in turn. `None` if the places are closed, which does not happen.
    pub(crate) async fn take_many(&self, caller: &str, many: u32) -> Option<Place> {
        let part = self.of(caller).acquire_many_owned(many).await.ok()?;
        let place = self.all.clone().acquire_many_owned(many).await.ok()?;
        Some(Place {
            permits: (part, place),
        })
    }

    /// Takes several places if they are free.
    pub(crate) fn try_take_many(&self, caller: &str, many: u32) -> Result<Place, Full> {
        let full = |full: Full| move |_: TryAcquireError| full;
        let part = self.of(caller).try_acquire_many_owned(many);
        let part = part.map_err(full(Full::Caller(self.each)))?;
        let place = self.all.clone().try_acquire_many_owned(many);
        let place = place.map_err(full(Full::All))?;
        Ok(Place {
            permits: (part, place),
        })
    }

    /// Takes a place if one is free.
    pub(crate) fn try_take(&self, caller: &str) -> Result<Place, Full> {
        self.try_take_many(caller, 1)
    }

    /// Waits for a place, in turn. `None` if the places are closed, which does not happen.
    pub(crate) async fn take(&self, caller: &str) -> Option<Place> {
        self.take_many(caller, 1).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_a_quarter_of_the_places_and_others_have_the_rest() {
        let places = Places::new(16);
        let held: Vec<Place> = (0..4).filter_map(|_| places.try_take("a").ok()).collect();
        assert_eq!(held.len(), 4);
        assert_eq!(places.try_take("a").err(), Some(Full::Caller(4)));
        let mut others = Vec::new();
        for n in 0..12 {
            others.push(places.try_take(&format!("b{n}")));
        }
        assert!(others.iter().all(Result::is_ok));
        assert_eq!(places.try_take("c").err(), Some(Full::All));
        drop(held);
        assert!(places.try_take("a").is_ok());
    }
}
