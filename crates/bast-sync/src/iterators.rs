//! A receiver's iterators, which are the same for `mpsc` and `mpmc`.

/// `Iter`, `TryIter` and `IntoIter` of the `Receiver` in scope; the texts are their documentation.
macro_rules! iterators {
    ($iter:literal, $try_iter:literal, $into_iter:literal) => {
        #[doc = $iter]
        #[derive(Debug)]
        pub struct Iter<'a, T: 'a> {
            receiver: &'a Receiver<T>,
        }

        #[doc = $try_iter]
        #[derive(Debug)]
        pub struct TryIter<'a, T: 'a> {
            receiver: &'a Receiver<T>,
        }

        #[doc = $into_iter]
        #[derive(Debug)]
        pub struct IntoIter<T> {
            receiver: Receiver<T>,
        }

        impl<T> Iterator for Iter<'_, T> {
            type Item = T;

            fn next(&mut self) -> Option<T> {
                self.receiver.recv().ok()
            }
        }

        impl<T> Iterator for TryIter<'_, T> {
            type Item = T;

            fn next(&mut self) -> Option<T> {
                self.receiver.try_recv().ok()
            }
        }

        impl<T> Iterator for IntoIter<T> {
            type Item = T;

            fn next(&mut self) -> Option<T> {
                self.receiver.recv().ok()
            }
        }

        impl<T> FusedIterator for Iter<'_, T> {}
        impl<T> FusedIterator for IntoIter<T> {}

        impl<'a, T> IntoIterator for &'a Receiver<T> {
            type Item = T;
            type IntoIter = Iter<'a, T>;

            fn into_iter(self) -> Iter<'a, T> {
                self.iter()
            }
        }

        impl<T> IntoIterator for Receiver<T> {
            type Item = T;
            type IntoIter = IntoIter<T>;

            fn into_iter(self) -> IntoIter<T> {
                IntoIter { receiver: self }
            }
        }
    };
}
pub(crate) use iterators;
