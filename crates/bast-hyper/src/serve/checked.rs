//! What stands between hyper and the user's service: it checks the Host of a request, adds its
//! peer's address, and sees to it that an answer without content does not tell its length.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderValue};
use http::{HeaderMap, Request, Response, StatusCode, Version};
use http_body_util::{Either, Empty};
use hyper::body::{Body, Incoming};
use hyper_util::service::TowerToHyperService;
use pin_project_lite::pin_project;

use super::BoxError;

/// The address of the client, among the extensions of each request that [`serve`](crate::serve()) passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerAddr(pub SocketAddr);

/// The service of one connection.
#[derive(Clone)]
pub(super) struct Checked<S> {
    pub(super) service: TowerToHyperService<S>,
    pub(super) peer: SocketAddr,
}

impl<S, B> hyper::service::Service<Request<Incoming>> for Checked<S>
where
    S: tower_service::Service<Request<Incoming>, Response = Response<B>> + Clone,
    B: Body,
    B::Error: Into<BoxError>,
{
    type Response = Response<Either<B, Empty<B::Data>>>;
    type Error = S::Error;
    type Future =
        Answer<<TowerToHyperService<S> as hyper::service::Service<Request<Incoming>>>::Future>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        if !has_good_host(request.version(), request.headers()) {
            return Answer::Refused;
        }
        request.extensions_mut().insert(PeerAddr(self.peer));
        Answer::Served { future: self.service.call(request) }
    }
}

pin_project! {
    #[project = Projected]
    pub(super) enum Answer<F> {
        Refused,
        Served { #[pin] future: F },
    }
}

impl<F, B, E> Future for Answer<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body,
{
    type Output = Result<Response<Either<B, Empty<B::Data>>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            Projected::Served { future } => future.poll(cx).map_ok(|mut response| {
                // axum says "0", which RFC 9110 (8.6) forbids.
                if response.status() == StatusCode::NO_CONTENT {
                    response.headers_mut().remove(CONTENT_LENGTH);
                }
                response.map(Either::Left)
            }),
            Projected::Refused => {
                let mut response = Response::new(Either::Right(Empty::new()));
                *response.status_mut() = StatusCode::BAD_REQUEST;
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                Poll::Ready(Ok(response))
            }
        }
    }
}

/// RFC 9112, 3.2. HTTP/2 has the pseudo-field `:authority`, which hyper checks.
fn has_good_host(version: Version, headers: &HeaderMap) -> bool {
    if version > Version::HTTP_11 {
        return true;
    }
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => version < Version::HTTP_11,
        (Some(host), None) => host.as_bytes().iter().all(|byte| is_of_a_host(*byte)),
        (Some(_), Some(_)) => false,
    }
}

/// What may be in `uri-host [ ":" port ]` (RFC 3986).
fn is_of_a_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(&byte)
}
