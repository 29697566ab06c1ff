"""The closed loop in twenty lines: recommend, get feedback, learn."""

import nextquery as nq

texts = [
    "python tutorial", "python list comprehension", "python decorators", "rust tutorial",
    "rust borrow checker", "rust lifetimes", "sourdough starter", "sourdough bread recipe",
]  # fmt: skip
encoder = nq.encode.LsaEncoder(dim=8).fit(texts)
pool = nq.ArmPool.from_vectors(texts, encoder.encode(texts))
rec = nq.Recommender(pool, nq.MaxUtility(k=5), nq.LinUCB(), encoder)
rec.warm_start([["python tutorial", "python decorators"], ["rust tutorial", "rust lifetimes"]])

session = rec.start("learning python")  # a new query: the encoder gives it a vector
while (choice := session.recommend()) is not None and session.trial <= 4:
    if "python" in choice.text:
        print(f"accepted: {choice.text}")
        session.accept(choice)
    else:
        print(f"ignored:  {choice.text}")
        session.ignore(choice, issued="python list comprehension")
