//! Why a promise has failed: one type for all promises (why, is said at the head of `promise`).

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::sync::Mutex;

/// Why there is no value. One pointer in size.
pub struct PromiseError(Box<Kind>);

enum Kind {
    Failed(Box<dyn Error + Send + Sync>),
    /// In a mutex only so that the error is `Sync`, as errors are expected to be.
    Panicked(Mutex<Box<dyn Any + Send>>),
    Cancelled,
    Broken,
    Cycle,
}

impl PromiseError {
    /// From an error, or a text. A `PromiseError` stays what it is.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> PromiseError {
        match error.into().downcast::<PromiseError>() {
            Ok(error) => *error,
            Err(error) => PromiseError(Box::new(Kind::Failed(error))),
        }
    }

    /// That of a promise that was cancelled.
    #[must_use]
    pub fn cancelled() -> PromiseError {
        PromiseError(Box::new(Kind::Cancelled))
    }

    /// What a panic becomes; the payload of a cancellation is one.
    pub(crate) fn panicked(payload: Box<dyn Any + Send>) -> PromiseError {
        if payload.is::<bast_rt::Cancelled>() {
            return PromiseError::cancelled();
        }
        PromiseError(Box::new(Kind::Panicked(Mutex::new(payload))))
    }

    pub(super) fn broken() -> PromiseError {
        PromiseError(Box::new(Kind::Broken))
    }

    pub(super) fn cycle() -> PromiseError {
        PromiseError(Box::new(Kind::Cycle))
    }

    /// Whether the promise, or one that it came from, was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(*self.0, Kind::Cancelled)
    }

    /// Whether a `Resolver` was dropped without being used.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        matches!(*self.0, Kind::Broken)
    }

    /// Whether a callback or a fiber panicked.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(*self.0, Kind::Panicked(_))
    }

    /// The payload of the panic, for [`std::panic::resume_unwind`].
    ///
    /// # Errors
    /// The error, if it was no panic.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send>, PromiseError> {
        match *self.0 {
            Kind::Panicked(payload) => Ok(payload.into_inner().unwrap_or_else(|e| e.into_inner())),
            kind => Err(PromiseError(Box::new(kind))),
        }
    }

    /// The error that the promise was rejected with, if it has this type.
    ///
    /// # Errors
    /// This error, if it has not.
    pub fn downcast<E: Error + 'static>(self) -> Result<E, PromiseError> {
        match *self.0 {
            Kind::Failed(error) => match error.downcast::<E>() {
                Ok(error) => Ok(*error),
                Err(error) => Err(PromiseError(Box::new(Kind::Failed(error)))),
            },
            kind => Err(PromiseError(Box::new(kind))),
        }
    }

    /// As [`downcast`](PromiseError::downcast), by reference.
    #[must_use]
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        match &*self.0 {
            Kind::Failed(error) => error.downcast_ref(),
            _ => None,
        }
    }
}

impl fmt::Display for PromiseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Failed(error) => error.fmt(f),
            Kind::Panicked(payload) => {
                let payload = payload.lock().unwrap_or_else(|e| e.into_inner());
                let text = payload.downcast_ref::<&str>().copied();
                match text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)) {
                    Some(text) => write!(f, "a callback or a fiber panicked: {text}"),
                    None => f.write_str("a callback or a fiber panicked"),
                }
            }
            Kind::Cancelled => f.write_str("the promise was cancelled"),
            Kind::Broken => f.write_str(
                "the promise was broken: its Resolver was dropped unused; \
                 let every path end with `resolve` or `reject`",
            ),
            Kind::Cycle => f.write_str(
                "the promise would wait for itself: a callback returned the promise that it is to resolve",
            ),
        }
    }
}

impl fmt::Debug for PromiseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Failed(error) => f.debug_tuple("PromiseError").field(error).finish(),
            _ => write!(f, "PromiseError({self})"),
        }
    }
}

impl Error for PromiseError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &*self.0 {
            Kind::Failed(error) => error.source(),
            _ => None,
        }
    }
}
