// The D rival of bast-bench: threads and fibers of D's runtime feed people, as in "Getting more fiber in
// your diet". It is started by the benchmark with the same arguments as the other subjects:
//
//	subject diet PEOPLExNUTRIENTS d-fibers|d-threads WARM_MS MEASURE_MS
//
// and prints "s TAB seconds" for each feeding, then "fed TAB nutrients".
module diet;

import core.thread;
import core.time : MonoTime, msecs;
import ldc.llvmasm : __asm;
import std.array : split;
import std.conv : to;
import std.exception : enforce;
import std.stdio : stderr, writefln;

final class Person
{
	struct Nutrients
	{
		int Fiber;
		int Calcium;
		int Iron;
	}

	int mNumNutrients;
	Nutrients mNutrients;

	this(int numNutrients)
	{
		mNumNutrients = numNutrients;
	}

	bool satisfied() const nothrow @property
	{
		return mNutrients == Nutrients(mNumNutrients, mNumNutrients, mNumNutrients);
	}

	/// One feeding. The compiler must bring it to memory, or it would see through a thread's loop.
	void feed() nothrow
	{
		mNutrients.Fiber++;
		mNutrients.Calcium++;
		mNutrients.Iron++;
		__asm("", "r,~{memory}", &mNutrients);
	}
}

final class FeedFiber : Fiber
{
	Person mPerson;

	this(Person p)
	{
		mPerson = p;
		super(&run);
	}

	void run()
	{
		while (!mPerson.satisfied)
		{
			mPerson.feed();
			Fiber.yield();
		}
	}
}

void feedWithFibers(Person[] people)
{
	size_t terminated;
	auto fibers = new FeedFiber[people.length];
	foreach (i, ref f; fibers)
		f = new FeedFiber(people[i]);
	while (terminated != fibers.length)
	{
		foreach (ref f; fibers)
		{
			if (!f)
				continue;
			if (f.state == Fiber.State.TERM)
			{
				terminated++;
				f = null;
				continue;
			}
			f.call();
		}
	}
}

void feedWithThreads(Person[] people)
{
	auto threads = new Thread[people.length];
	foreach (i, ref t; threads)
	{
		t = eater(people[i]);
		t.start();
	}
	foreach (t; threads)
		t.join();
}

/// A function of its own, so that each thread has its own person.
Thread eater(Person person)
{
	return new Thread({
		while (!person.satisfied)
			person.feed();
	});
}

int main(string[] args)
{
	try
	{
		enforce(args.length == 7 && args[1] == "subject" && args[2] == "diet",
			"usage: subject diet PEOPLExNUTRIENTS d-fibers|d-threads WARM_MS MEASURE_MS");
		auto meal = args[3].split("x");
		enforce(meal.length == 2, "not PEOPLExNUTRIENTS: " ~ args[3]);
		serve(to!size_t(meal[0]), to!int(meal[1]), args[4], to!long(args[6]));
		return 0;
	}
	catch (Throwable e)
	{
		stderr.writefln("d: %s", e.msg);
		return 1;
	}
}

void serve(size_t numPeople, int numNutrients, string subject, long measureMs)
{
	enforce(subject == "d-fibers" || subject == "d-threads", "no subject " ~ subject);
	immutable begin = MonoTime.currTime;
	for (size_t round = 1;; round++)
	{
		immutable start = MonoTime.currTime;
		auto people = new Person[numPeople];
		foreach (ref p; people)
			p = new Person(numNutrients);
		if (subject == "d-fibers")
			feedWithFibers(people);
		else
			feedWithThreads(people);
		immutable took = MonoTime.currTime - start;
		writefln("s\t%.9f", took.total!"nsecs" / 1e9);
		long fed;
		foreach (p; people)
		{
			enforce(p.satisfied, "somebody was not fed");
			fed += p.mNutrients.Fiber + p.mNutrients.Calcium + p.mNutrients.Iron;
		}
		if (round >= 2 && MonoTime.currTime - begin >= measureMs.msecs)
		{
			writefln("fed\t%d", fed);
			return;
		}
	}
}
