"""The engine: from requests to slates, forecasts and maps, each recorded before it is returned."""
